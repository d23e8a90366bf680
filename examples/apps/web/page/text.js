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

const beginsInWord = (text) => /^[\p{L}\p{N}’']/u.test(text);
const endOfWord = (text) => /[\p{L}\p{N}’']*$/u.exec(text)[0];

/** The word at the end of the text: its characters, and the token that it begins in. */
class LastWord {
  begin(text, token) {
    this.text = endOfWord(text);
    this.token = token;
  }

  add(text, token) {
    const end = endOfWord(text);
    if (end === text) this.text += end;  // the word goes on
    else this.text = end;
    if (this.text === end) this.token = token;
  }
}

export class ShownText {
  #word = new LastWord();

  constructor(paper, legend, onChoose) {
    this.paper = paper;
    this.legend = legend;
    const choose = (event) => {
      const block = event.target.closest('.block');
      if (!block) return;
      event.preventDefault();
      onChoose(Number(block.dataset.block));
    };
    this.paper.addEventListener('click', choose);
    this.paper.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' || event.key === ' ') choose(event);
    });
  }

  begin(prompt) {
    this.counts = Object.fromEntries(kinds.map((kind) => [kind, 0]));
    this.blocks = 0;
    const last = endOfWord(prompt);
    const shown = make('span', 'prompt-text', prompt.slice(0, prompt.length - last.length), make('span', 'mark', last));
    this.#word.begin(prompt, shown);
    this.paper.replaceChildren(shown);
    this.paper.scrollTop = 0;
    this.#tell();
  }

  add(block) {
    const number = ++this.blocks;
    const span = make('span', 'block');
    const counts = {};
    const add = (kind, text) => {
      const token = marked(kind, text);
      token.setAttribute('role', 'listitem');
      token.setAttribute('aria-label', `${text.trim() || 'white space'}, ${kind}`);
      span.append(token);
      ++this.counts[kind];
      counts[kind] = (counts[kind] ?? 0) + 1;
      return token;
    };
    block.text.forEach((text, i) => {
      // Rejected tokens stand before the token that replaced them.
      const rejected = i === block.accepted ? block.drafted.slice(i).map(([token]) => shownToken(token)) : [];
      const struck = rejected.map((token) => add('rejected', token));
      const token = add(i < block.accepted ? 'accepted' : lastKind(block), text);
      if (rejected.length > 0) this.#lift(rejected.join(''), struck, text, token);
      this.#word.add(text, token);
    });
    span.dataset.block = number - 1;
    span.setAttribute('role', 'list');
    span.setAttribute('aria-label', `Block ${number}: ${Object.entries(counts).map(([kind, count]) => `${count} ${kind}`).join(', ')}`);
    span.tabIndex = number === 1 ? 0 : -1;
    const atEnd = this.paper.scrollHeight - this.paper.scrollTop - this.paper.clientHeight < 40;
    this.paper.append(span);
    if (atEnd) this.paper.scrollTop = this.paper.scrollHeight;
    this.#tell();
  }

  /** Marks a block, or none (−1). The keyboard's focus goes with it, if it was in the text. */
  choose(number) {
    const inside = this.paper.contains(document.activeElement);
    const blocks = [...this.paper.querySelectorAll('.block')];
    blocks.forEach((block, k) => { block.tabIndex = k === Math.max(number, 0) ? 0 : -1; });
    this.paper.querySelector('[aria-current]')?.removeAttribute('aria-current');
    const chosen = blocks[number];
    if (!chosen) return;
    chosen.setAttribute('aria-current', 'true');
    if (inside) chosen.focus({ preventScroll: true });
    this.#show(chosen);
  }

  /** Scrolls the paper, and nothing else, until a block is in view. */
  #show(block) {
    const own = block.getBoundingClientRect(), paper = this.paper.getBoundingClientRect();
    if (own.top < paper.top) this.paper.scrollTop -= paper.top - own.top + 8;
    else if (own.bottom > paper.bottom) this.paper.scrollTop += own.bottom - paper.bottom + 8;
  }

  /** Tokens that are struck out inside a word cannot be read. So the drafted word stands whole before the word that was written.
      The page's style shows either this word or the tokens. */
  #lift(rejected, struck, text, token) {
    const { text: begun, token: beginning } = this.#word;
    const within = begun !== '' && (beginsInWord(rejected) || beginsInWord(text));
    if (!within && !(endOfWord(rejected) !== '' && beginsInWord(text))) return;
    for (const one of struck) one.classList.add('lifted');
    const place = within ? beginning : token;
    const word = within ? begun + rejected : rejected.trimStart();
    const lost = make('del', 'lost', make('span', 'mark', word), ' ');
    place.insertBefore(lost, place.querySelector(':scope > .mark'));
  }

  #tell() {
    this.legend.replaceChildren(...kinds.map((kind) =>
      make('li', '', make('span', 'count', String(this.counts[kind])), ' ', marked(kind, kind))));
  }
}
