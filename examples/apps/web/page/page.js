// The page: what is chosen, and the text that is written block by block.
// SPDX-License-Identifier: MIT
import { Client } from './client.js';
import { showMeasures } from './measures.js';
import { showSteps } from './steps.js';
import { ShownText } from './text.js';

const part = Object.fromEntries([...document.querySelectorAll('[id]')].map((element) => [element.id, element]));
const form = part.settings;
const tokens = 160, longest = 8;  // longest: what "auto" may choose

const client = new Client((share) => {
  part.progress.value = share;
  say(`Loading the models: ${Math.round(100 * share)} % of 6.9 MB`);
});
const text = new ShownText(part.text, part.legend, choose);

let run = null;   // the text: { settings, blocks, alone, shown, writing, stale }; of its blocks so many are shown
let loaded = false;
let chosen = -1;  // the block that is shown step by step

// ---- What is chosen ----

const about = {
  block: 'Block verification judges the draft as a whole. No lossless rule of the plain loop keeps more tokens.',
  token: 'Token verification judges each token by itself, with min(1, p / q).',
  'sample-match': 'The target draws its own tokens, and keeps the draft as far as it guessed them. It needs no q.',
};

function settings() {
  const { prompt, rule, drafter, gamma, temperature, seed } = Object.fromEntries(new FormData(form));
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

function say(words, wrong = false) {
  part.status.textContent = words;
  part.status.classList.toggle('wrong', wrong);
}

// ---- Writing ----

/** Whether there is a text to go on with. */
const goesOn = () => run !== null && !run.stale && run.shown < run.blocks.length;

function named() { part.write.textContent = run?.writing ? 'Pause' : goesOn() ? 'Go on' : 'Write'; }

/** Lets the engine write a text. Nothing of it is shown yet. */
async function begin() {
  const own = settings();
  say('Computing …');
  const { blocks, alone } = await client.ask('write', own);
  run = { settings: own, blocks, alone, shown: 0, writing: false, stale: false };
  chosen = -1;
  text.begin(own.prompt);
  part.steps.hidden = true;
  part.measures.hidden = !(blocks.length > 1 && alone > 0);  // a text may end with its first block
  if (!part.measures.hidden) showMeasures(part, blocks, own.gamma, alone);
}

/** Shows the next block. The block that is told step by step follows, if it was the last one. */
function showNext() {
  const block = run.blocks[run.shown++];
  text.add(block);
  if (chosen === run.shown - 2) choose(run.shown - 1);
  else showPlace();
  const ends = { length: '. The end: enough tokens.', context: '. The end: the context is full.' };
  const end = block.done ? ends[block.done] ?? '. The end of the text.' : '';
  say(`${block.tokens} tokens in ${block.calls} target calls${end}`);
}

async function writeOn() {
  run.writing = true;
  named();
  while (run.writing && goesOn()) {
    const pace = Number(form.pace.value);
    showNext();
    if (pace > 0) await new Promise((resolve) => setTimeout(resolve, pace));
  }
  run.writing = false;
  named();
}

/** Runs an action; what goes wrong is said. Meanwhile no other text begins. */
async function act(action) {
  part.write.disabled = part.one.disabled = true;
  try {
    await action();
  } catch (error) {
    say(error.message, true);
  }
  part.write.disabled = part.one.disabled = !loaded;
  named();
}

form.addEventListener('submit', (event) => {
  event.preventDefault();
  if (run?.writing) run.writing = false;
  else if (goesOn()) writeOn();
  else act(begin).then(() => goesOn() && writeOn());
  named();
});

async function writeOne() {
  if (run) run.writing = false;
  if (!goesOn()) await act(begin);
  if (!goesOn()) return;
  chosen = run.shown - 1;
  showNext();
  named();
}
part.one.addEventListener('click', writeOne);

// A text that was begun keeps its settings; new ones are for the next text. The pace is for this one, too.
form.addEventListener('input', ({ target }) => {
  showChoices();
  if (!run || target.name === 'pace') return;
  run.writing = false;
  run.stale = true;
  named();
});

// ---- Step by step ----

function showPlace() {
  part.which.textContent = `block ${chosen + 1} of ${run.shown}`;
  part.earlier.disabled = chosen <= 0;
  part.later.disabled = chosen + 1 >= run.shown && !goesOn();
}

function choose(number) {
  chosen = number;
  text.choose(number);
  part.steps.hidden = false;
  showSteps(part, run.blocks[number], run.settings.rule);
  showPlace();
}

/** Chooses the block `by` further on. After the last one, the next is written. */
function go(by) {
  if (part.write.disabled || !run) return;
  run.writing = false;
  const number = chosen + by;
  if (number >= 0 && number < run.shown) choose(number);
  else if (by > 0 && goesOn()) showNext();
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

part['show-rejected'].addEventListener('change', ({ target }) => {
  document.body.classList.toggle('without-rejected', !target.checked);
});

// ---- The beginning ----

const rounded = (number) => number >= 1e6 ? `${(number / 1e6).toFixed(1)} million` : `${Math.round(number / 1e3)} thousand`;

showChoices();
text.begin(form.prompt.value);
act(async () => {
  const models = await client.ask('load');
  part['target-size'].textContent = rounded(models.target);
  part['draft-size'].textContent = rounded(models.draft);
  loaded = true;
  part.progress.hidden = true;
  say('The models are loaded. Write a text, or one block of it.');
});
