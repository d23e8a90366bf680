// Draws the text: a span for each block, and in it a span for each token, by what became of it.
// SPDX-License-Identifier: MIT
import { make, shownToken } from './dom.js';

/** A token of a kind. The white space before its word is not marked. */
function marked(kind, text) {
  const word = text.trimStart();
  return make('span', kind, text.slice(0, text.length - word.length), make('span', 'mark', word));
}

const kinds = ['accepted', 'corrected', 'bonus', 'undrafted', 'rejected'];

/** The kind of the token that the target adds after the accepted ones. */
export function lastKind(block) {
  if (block.drafted.length === 0) return 'undrafted';
  return block.accepted < block.drafted.length ? 'corrected' : 'bonus';
}

export class ShownText {
  constructor(paper, legend, onChoose) {
    this.paper = paper;
    this.legend = legend;
    this.paper.addEventListener('click', ({ target }) => {
      const block = target.closest('.block');
      if (block) onChoose(Number(block.dataset.block));
    });
  }

  begin(prompt) {
    this.counts = Object.fromEntries(kinds.map((kind) => [kind, 0]));
    this.blocks = 0;
    this.paper.replaceChildren(make('span', 'prompt-text', prompt));
    this.#tell();
  }

  add(block) {
    const tokens = [];
    const add = (kind, text) => {
      tokens.push(marked(kind, text));
      ++this.counts[kind];
    };
    block.text.forEach((text, i) => {
      // Rejected tokens stand before the token that replaced them.
      if (i === block.accepted) for (const [token] of block.drafted.slice(i)) add('rejected', shownToken(token));
      add(i < block.accepted ? 'accepted' : lastKind(block), text);
    });
    const span = make('span', 'block', ...tokens);
    span.dataset.block = this.blocks++;
    const atEnd = this.paper.scrollHeight - this.paper.scrollTop - this.paper.clientHeight < 40;
    this.paper.append(span);
    if (atEnd) this.paper.scrollTop = this.paper.scrollHeight;
    this.#tell();
  }

  choose(number) {
    this.paper.querySelector('[aria-current]')?.removeAttribute('aria-current');
    this.paper.querySelector(`[data-block="${number}"]`)?.setAttribute('aria-current', 'true');
  }

  #tell() {
    const told = kinds.filter((kind) => this.counts[kind] > 0 || ['accepted', 'corrected', 'bonus'].includes(kind));
    this.legend.replaceChildren(...told.map((kind) => make('li', '', `${this.counts[kind]} `, marked(kind, kind))));
  }
}
