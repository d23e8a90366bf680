// The page: what is chosen, and the text that is written block by block.
// SPDX-License-Identifier: MIT
import { Client } from './client.js';
import { showMeasures, showNoMeasures } from './measures.js';
import { clearSteps, showSteps } from './steps.js';
import { ShownText } from './text.js';

const part = Object.fromEntries([...document.querySelectorAll('[id]')].map((element) => [element.id, element]));
const form = part.settings;
const tokens = 160, longest = 8;  // longest: what "auto" may choose

const client = new Client((share) => {
  part.progress.value = share;
  say(`Loading the models: ${Math.round(100 * share)} % of 6.9 MB`);
});
const text = new ShownText(part.text, part.legend, choose);

let run = null;   // the text: { settings, values, blocks, alone, shown, writer, stale }; of its blocks so many are shown, and a writer
                  // is the loop that shows more
let loaded = false, busy = false;
let chosen = -1;  // the block that is shown step by step

// ---- What is chosen ----

const about = {
  block: 'Block verification judges the draft as a whole. No lossless rule of the plain loop keeps more tokens.',
  token: 'Token verification judges each token by itself, with min(1, p / q).',
  'sample-match': 'The target draws its own tokens, and keeps the draft as far as it guessed them. It needs no q.',
};

const values = () => Object.fromEntries(new FormData(form));

function settings({ prompt, rule, drafter, gamma, temperature, seed }) {
  const automatic = gamma === 'auto' && drafter !== 'none';
  return {
    prompt, rule, tokens, automatic, temperature: Number(temperature), seed: Number(seed),
    drafter: drafter === 'none' ? 'model' : drafter,
    gamma: drafter === 'none' ? 0 : automatic ? longest : Number(gamma) || longest,
  };
}

function showChoices() {
  part['temperature-shown'].textContent = Number(form.temperature.value).toFixed(1);
  const alone = form.drafter.value === 'none';
  form.gamma.disabled = alone;
  part.about.textContent = alone ? 'The target alone: a call for each token.' : about[form.rule.value];
}

/** Marks the settings that are not those of the text. The pace changes no text, and is for this one, too. */
function showChanges() {
  const now = values(), were = [];
  for (const input of form.querySelectorAll('[name]')) {
    const was = run?.values[input.name];
    const other = input.name !== 'pace' && was !== undefined && now[input.name] !== undefined && now[input.name] !== was;
    input.classList.toggle('changed', other);
    const shown = [...input.options ?? []].find(({ value }) => value === was)?.text ?? was;
    if (other) were.push(`${input.dataset.name ?? input.name} (was ${shown})`);
  }
  part.changes.textContent = were.length === 0 ? '' : `Other than in this text: ${were.join(', ')}. “Write” begins a new one.`;
  if (run) run.stale = were.length > 0;
}

function say(words, wrong = false) {
  part.count.textContent = '';
  part.status.textContent = words;
  part.status.classList.toggle('wrong', wrong);
}

// ---- Writing ----

/** Whether there is a text to go on with. */
const goesOn = () => run !== null && !run.stale && run.shown < run.blocks.length;

function named() { part.write.textContent = run?.writer ? 'Pause' : goesOn() ? 'Go on' : 'Write'; }

/** Lets the engine write a text. Nothing of it is shown yet. */
async function begin() {
  const own = values(), asked = settings(own);
  say('Computing …');
  const { blocks, alone } = await client.ask('write', asked);
  run = { settings: asked, values: own, blocks, alone, shown: 0, writer: null, stale: false };
  text.begin(own.prompt);
  showChanges();  // some may have changed meanwhile
  chooseNone('');
  if (blocks.length > 1 && alone > 0) showMeasures(part, blocks, asked.gamma, alone);
  else showNoMeasures(part);  // a text may end with its first block
}

/** Shows the next block. */
function showNext() {
  const block = run.blocks[run.shown++];
  text.add(block);
  showPlace();
  const ends = { length: 'The end: enough tokens.', context: 'The end: the context is full.' };
  part.count.textContent = `${block.tokens} tokens in ${block.calls} target calls.`;
  part.status.textContent = block.done ? ends[block.done] ?? 'The end of the text.' : '';
}

/** Shows blocks until the end or a pause. Only then the last one is told step by step: what changes faster than one can read
    is no help, and moves what stands below it. */
async function writeOn() {
  const writer = run.writer = {};
  if (chosen === run.shown - 1) chooseNone('The last block is told at the next pause.');
  named();
  while (run.writer === writer && goesOn()) {
    const pace = Number(form.pace.value);
    showNext();
    if (pace > 0) await new Promise((resolve) => setTimeout(resolve, pace));
  }
  if (run.writer === writer) pause();
}

function pause() {
  if (!run?.writer) return;
  run.writer = null;
  if (chosen < 0 && run.shown > 0) choose(run.shown - 1);
  named();
}

/** Runs an action; what goes wrong is said. Meanwhile no other text begins. The buttons keep the focus, as they stay enabled for it. */
async function act(action) {
  busy = true;
  for (const button of [part.write, part.one]) button.setAttribute('aria-disabled', 'true');
  try {
    await action();
  } catch (error) {
    say(error.message, true);
  }
  busy = false;
  for (const button of [part.write, part.one]) button.setAttribute('aria-disabled', String(!loaded));
  named();
}

form.addEventListener('submit', async (event) => {
  event.preventDefault();
  if (busy || !loaded) return;
  if (run?.writer) return pause();
  if (!goesOn()) await act(begin);
  if (goesOn()) writeOn();
});

part.one.addEventListener('click', async () => {
  if (busy || !loaded) return;
  pause();
  if (!goesOn()) await act(begin);
  if (!goesOn()) return;
  showNext();
  choose(run.shown - 1);
  named();
});

// A text that was begun keeps its settings; new ones are for the next text.
form.addEventListener('input', ({ target }) => {
  showChoices();
  if (!run || target.name === 'pace') return;
  pause();
  showChanges();
  named();
});

// ---- Step by step ----

function showPlace() {
  part.which.textContent = chosen < 0 ? `${run.shown} blocks` : `block ${chosen + 1} of ${run.shown}`;
  part.earlier.setAttribute('aria-disabled', String(chosen <= 0));
  part.later.setAttribute('aria-disabled', String(chosen + 1 >= run.shown && !goesOn()));
}

const empty = [...part.summary.childNodes];
const hint = part.outcome.textContent;

function chooseNone(words) {
  chosen = -1;
  text.choose(-1);
  clearSteps(part, empty, words || hint);
  showPlace();
}

function choose(number) {
  chosen = number;
  text.choose(number);
  showSteps(part, run.blocks[number], run.settings.rule);
  showPlace();
  const color = getComputedStyle(part.steps).getPropertyValue('--chosen');
  part['steps-title'].animate([{ backgroundColor: color }, { backgroundColor: 'transparent' }], 1500);
}

/** Chooses the block `by` further on. After the last one, the next is written. */
function go(by) {
  if (busy || !run) return;
  const before = run.writer && chosen < 0 ? run.shown - 1 : chosen;
  pause();
  const number = before + by;
  if (number >= run.shown && by > 0 && goesOn()) showNext();
  if (number >= 0 && number < run.shown) choose(number);
  named();
}

part.earlier.addEventListener('click', () => go(-1));
part.later.addEventListener('click', () => go(1));
document.addEventListener('keydown', (event) => {
  if (event.target.closest('input, select') || event.altKey || event.ctrlKey || event.metaKey) return;
  if (event.key === 'ArrowLeft') go(-1);
  else if (event.key === 'ArrowRight') go(1);
  else return;
  event.preventDefault();
});

function showRejected() {
  document.body.classList.toggle('without-rejected', !part['show-rejected'].checked);
  document.body.classList.toggle('words', part['whole-words'].checked);
}
part['show-rejected'].addEventListener('change', showRejected);
part['whole-words'].addEventListener('change', showRejected);

// ---- The beginning ----

const rounded = (number) => number >= 1e6 ? `${(number / 1e6).toFixed(1)} million` : `${Math.round(number / 1e3)} thousand`;

showChoices();
showRejected();
showNoMeasures(part);
text.begin(form.prompt.value);
act(async () => {
  const models = await client.ask('load');
  part['target-size'].textContent = rounded(models.target);
  part['draft-size'].textContent = rounded(models.draft);
  loaded = true;
  part.progress.classList.add('full');
  say('The models are loaded. Write a text, or one block of it.');
});
