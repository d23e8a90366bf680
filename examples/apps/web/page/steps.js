// One block, step by step: what was drafted, the rows of both models, and every random decision of the rule.
// SPDX-License-Identifier: MIT
import { loneToken, make, piece, shown } from './dom.js';
import { lastKind } from './text.js';

const sub = (number) => [...String(number)].map((digit) => '₀₁₂₃₄₅₆₇₈₉'[digit]).join('');

// ---- The rows ----

/** What w is, of the first `count` drafted tokens. */
const weight = (count) => `w${sub(count)} = min(1, ${count === 1 ? '' : `w${sub(count - 1)} · `}p / q)`;

/** The likeliest tokens of one pair of rows, and below them what the rule makes of the drafted token. */
function row(block, i, rule) {
  const candidates = block.rows[i], drafted = block.drafted[i];
  const largest = Math.max(...candidates.flatMap(([, p, q]) => [p, q ?? 0]));
  const line = (kind, value) => {
    const mark = make('i', kind);
    mark.style.width = `${100 * value / largest}%`;
    return mark;
  };
  const seen = ([token, p, q]) => token === drafted?.[0] || Math.max(p, q ?? 0) >= 0.004;  // what makes a bar
  const lines = candidates.filter(seen).map(([token, p, q]) => {
    const numbers = q === null ? `p ${shown(p)}` : `p ${shown(p)}, q ${shown(q)}`;
    const pair = make('div', 'pair', line('p', p), q !== null && line('', q));
    const head = make('th', '', loneToken(token));
    head.scope = 'row';
    const own = make('tr', drafted?.[0] === token ? 'drafted' : '', head, make('td', '', pair));
    own.title = numbers;
    own.setAttribute('aria-label', `${loneToken(token)}: ${numbers}`);
    return own;
  });
  const place = drafted ? `token ${i + 1}` : block.drafted.length > 0 ? 'after the draft' : 'after the text';
  const token = drafted ? piece(drafted[0], i < block.accepted ? 'accepted' : 'rejected') : null;
  const card = make('div', 'row', make('h4', '', place, token), make('table', '', make('tbody', '', ...lines)));
  if (!drafted) return card;
  const [, p, q, survival] = drafted;
  const numbers = [['p', shown(p)], ['q', shown(q)]];
  if (rule !== 'sample-match') numbers.push(['p / q', shown(p / q)]);
  numbers.push([rule === 'block' ? weight(i + 1) : 'P(stays)', shown(survival)]);
  card.append(make('dl', 'numbers', ...numbers.flatMap(([name, value]) => [make('dt', '', name), make('dd', '', value)])));
  return card;
}

// ---- The decisions ----

/** A coin as a bar: the filled part is its probability, the mark is the random number. */
function coin([, h, u, yes], question, answers = ['yes', 'no'], kind = '') {
  const chance = make('div', 'chance');
  chance.style.width = `${100 * Math.min(1, h)}%`;
  const track = make('div', 'coin', chance);
  track.setAttribute('role', 'img');
  track.setAttribute('aria-label', `probability ${shown(Math.min(1, h))}${u === null ? '' : `, random number ${shown(u)}`}`);
  if (u !== null) {
    const mark = make('div', 'at');
    mark.style.left = `${100 * u}%`;
    track.append(mark);
  }
  const sign = u === null ? 'certain' : `${shown(u)} ${yes ? '<' : '≥'} ${shown(h)}`;
  return make('li', kind, make('span', '', ...question), track,
    make('span', 'verdict', make('b', '', answers[yes ? 0 : 1]), document.createElement('br'), sign));
}
const plain = (kind, ...words) => make('li', `plain ${kind}`, make('span', '', ...words));

/** Splits the events into races, each with its rounds. */
function races(events) {
  const all = [];
  for (const event of events) {
    if (event[0] === 'race') all.push({ w: event[1], events: [], winner: null });
    else if (event[0] === 'won') all.at(-1).winner = event[1];
    else if (event[0] !== 'lost') all.at(-1).events.push(event);
  }
  return all;
}

/** A race of weight w: rounds of a coin w, a token of the target, and a coin that it wins against the draft's row. */
function race({ w, events }, kind) {
  const told = [];
  for (let k = 0; k < events.length; ++k) {
    const event = events[k], drawn = events[k - 1];
    if (event[0] === 'draw') {
      told.push(plain(kind, 'The target draws ', piece(event[1]), event[3] === null ? `, p = ${shown(event[2])}` :
        `, p = ${shown(event[2])}, q = ${shown(event[3])}`));
    } else if (drawn?.[0] === 'draw') {
      const wins = w < 1 ? ' wins with (w p − q)₊ / (w p)' : ' wins with (p − q)₊ / p';
      told.push(coin(event, [piece(drawn[1]), wins], ['wins', 'again'], kind));
    } else if (w < 1) {
      told.push(coin(event, ['The race goes on with w'], ['goes on', 'lost'], kind));
    }
  }
  const most = 12;
  return told.length <= most ? told : [...told.slice(0, most / 2), plain(kind, `… ${told.length - most} more of these …`),
    ...told.slice(-most / 2)];
}

const places = (count) => count === 0 ? 'Keep no drafted token' : count === 1 ? 'Keep 1 token' : `Keep ${count} tokens`;

const decisions = {
  // From the longest prefix down to the first that is kept: one race each.
  block: (block) => races(block.events).flatMap((one, k) => {
    const kept = block.drafted.length - k;
    if (block.drafted.length === 0) return race(one, '');
    if (one.w <= 0) return [plain('', make('b', '', `${places(kept)}?`), ` w${sub(kept)} = 0: never`)];
    const name = kept === 0 ? `${places(kept)}: a race that is never lost`
      : `${places(kept)}? A race of weight w${sub(kept)} = ${shown(one.w)}`;
    return [plain('', make('b', '', name)), ...race(one, 'inner')];
  }),
  // From the first token on, until one is rejected.
  token: (block) => {
    const coins = block.events.findIndex(([kind]) => kind !== 'coin');
    const told = block.events.slice(0, coins).map((event, i) => coin(event,
      ['Keep ', piece(block.drafted[i][0]), ' with min(1, p / q)'], ['kept', 'rejected']));
    const rest = block.events.slice(coins);
    if (rest[0][0] === 'draw') return [...told, plain('', 'The target draws ', piece(rest[0][1]), `, p = ${shown(rest[0][2])}`)];
    const name = 'A token in its place, from (p − q)₊: a race of weight 1';
    return [...told, plain('', make('b', '', name)), ...race(races(rest)[0], 'inner')];
  },
  // The target draws; the draft is right or wrong.
  'sample-match': (block) => block.events.map(([, token, p], i) => {
    const drafted = block.drafted[i];
    const what = !drafted ? '' : drafted[0] === token ? ': as drafted' : ': not the draft’s ';
    const other = drafted && drafted[0] !== token ? piece(drafted[0]) : null;
    return plain('', 'The target draws ', piece(token), `, p = ${shown(p)}`, what, other);
  }),
};

/** What became of the draft, in one sentence. */
function outcome(block) {
  const kind = lastKind(block), token = piece(block.token, kind);
  if (kind === 'undrafted') return ['The target adds ', token, '.'];
  if (kind === 'bonus') return ['The whole draft stays, and the target adds ', token, ' as a bonus.'];
  const lost = piece(block.drafted[block.accepted][0], 'rejected');
  return [`${block.accepted} of ${block.drafted.length} stay; `, lost, ' is lost to ', token,
    block.accepted + 1 < block.drafted.length && ', and what follows it is dropped', '.'];
}

function summary(block, rule) {
  const key = (kind, name) => make('span', '', make('span', `key ${kind}`), name);
  if (block.drafted.length === 0)
    return ['Nothing was drafted: the target draws a token from its row. ', key('p', 'p, the target')];
  const how = {
    block: ' The rule judges the draft as a whole. The weight wᵢ is the probability that the first i tokens stay, given these ' +
      'tokens: what the target likes better than the drafter did pays for a later token that it likes less.',
    token: ' The rule judges token by token, and ends at the first that it rejects.',
    'sample-match': ' The target draws its own tokens, and keeps the draft as far as it is right.',
  }[rule];
  const count = block.drafted.length;
  return [`${count === 1 ? '1 token was' : `${count} tokens were`} drafted, and the target read them in one call.${how} `,
    key('p', 'p, the target'), ' ', key('', 'q, the drafter')];
}

/** Fills the section. `parts` are its elements by their ids. */
export function showSteps(parts, block, rule) {
  parts.summary.replaceChildren(...summary(block, rule));
  parts.rows.replaceChildren(...block.rows.map((_, i) => row(block, i, rule)));
  parts.decisions.replaceChildren(...decisions[rule](block));
  parts['decisions-title'].hidden = false;
  parts.outcome.replaceChildren(...outcome(block).filter(Boolean));
}

/** Empties the section: no block is told. `words` are said in place of its outcome. */
export function clearSteps(parts, empty, words) {
  parts.summary.replaceChildren(...empty);
  for (const name of ['rows', 'decisions']) parts[name].replaceChildren();
  parts['decisions-title'].hidden = true;
  parts.outcome.textContent = words;
}
