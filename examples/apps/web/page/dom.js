// Makes elements.
// SPDX-License-Identifier: MIT

/** make('p', 'hint', 'text', element, ...): an element with a class and children; those that are null or false are left out. */
export function make(tag, kind, ...children) {
  const element = document.createElement(tag);
  if (kind) element.className = kind;
  element.append(...children.filter((child) => child !== null && child !== false));
  return element;
}

/** A token beside the text: an end of a line is an arrow, and a token without characters is an empty set. */
export const shownToken = (token) => token.replaceAll('\n', '↵') || '∅';

/** A token by itself: its spaces are dots. */
export const loneToken = (token) => shownToken(token).replaceAll(' ', '·');

/** A token by itself, on a small plate. */
export function piece(token, kind = '') {
  return make('span', `piece ${kind}`.trim(), loneToken(token));
}

/** A probability or a weight, in as few digits as tell it from 0 and 1. */
export function shown(number) {
  if (number === 0 || number === 1) return String(number);
  if (number < 0.0001) return number.toExponential(0).replace('-', '−');
  if (number < 0.01 || (number > 0.99 && number < 1)) return number.toFixed(number > 0.9999 ? 6 : 4);
  return number.toFixed(2);
}
