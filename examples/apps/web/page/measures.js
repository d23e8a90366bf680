// The bars: tokens a target call, and tokens a second beside the target alone.
// SPDX-License-Identifier: MIT
import { make } from './dom.js';
import { milliseconds } from './engine.js';

function bar(kind, share, ...label) {
  const fill = make('div', 'fill');
  fill.style.width = `${Math.min(100, 100 * share)}%`;
  return make('div', `bar ${kind}`, make('div', 'track', fill), make('span', '', ...label));
}

/** The blocks of a whole text, with up to `most` drafted tokens, and the milliseconds a token of the target alone. */
export function showMeasures({ efficiency, speed, costs }, blocks, most, alone) {
  const last = blocks.at(-1), perCall = last.tokens / last.calls;
  efficiency.replaceChildren(
    bar('ours', perCall / (most + 1), make('b', '', perCall.toFixed(2)), ` of at most ${most + 1}`),
    bar('', 1 / (most + 1), '1 by the target alone'));

  const { token, call, draft } = milliseconds(blocks);
  const fastest = Math.min(token, alone);
  speed.replaceChildren(
    bar('ours', fastest / token, make('b', '', (1000 / token).toFixed(0)), ` with drafts: ${(alone / token).toFixed(2)} ×`),
    bar('', fastest / alone, `${(1000 / alone).toFixed(0)} by the target alone`));
  const measured = 'Measured here and now: the text was computed at one go, and is shown at your pace.';
  const times = `A target call over a draft took ${(call / alone).toFixed(1)} × the time of one over a single token, and making ` +
    `the draft ${(draft / alone).toFixed(1)} ×. The dearer these are, the less drafts gain: “auto” finds the γ that pays. A ` +
    'browser computes four numbers at a time, a native program up to sixteen.';
  costs.textContent = most === 0 ? measured : `${measured} ${times}`;
}

/** What stands there before there is anything to measure, as high as what comes. */
export function showNoMeasures({ efficiency, speed, costs }) {
  for (const part of [efficiency, speed]) part.replaceChildren(bar('ours', 0, 'with drafts'), bar('', 0, 'by the target alone'));
  costs.textContent = 'Measured here, while a text is computed.';
}
