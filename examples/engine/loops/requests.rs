// An engine with many requests in Rust: rustc -O -L folder_of_the_library requests.rs. See requests.c.
use std::ffi::{c_void, CStr};
use std::os::raw::c_char;
use std::ptr::{null, null_mut};
use std::slice::from_raw_parts;

// The two models: row x is the distribution after token x.
const TARGET: [[f32; 4]; 4] = [[0.1, 0.6, 0.2, 0.1], [0.5, 0.1, 0.3, 0.1], [0.2, 0.2, 0.1, 0.5], [0.7, 0.1, 0.1, 0.1]];
const DRAFT: [[f32; 4]; 4] = [[0.2, 0.5, 0.2, 0.1], [0.3, 0.2, 0.4, 0.1], [0.1, 0.2, 0.1, 0.6], [0.4, 0.2, 0.2, 0.2]];
const VOCABULARY: i64 = 4;
const GAMMA: usize = 2;
const WANTED: i64 = 8;
const PROBABILITIES: i32 = 0;
const BLOCK: i32 = 0;

#[repr(C)]
#[derive(Clone, Copy)]
struct Philox { seed: u64, offset: u64, stream: u64 }
#[repr(C)]
#[derive(Clone, Copy)]
struct Verdict { accepted: i64, token: i32 }
#[repr(C)]
struct Text { tokens: *const i32, size: i64, new_tokens: i64, kept: i64 }
#[repr(C)]
struct Feed { request: i64, from: i64, tokens: *const i32, size: i64, rows: i64 }
#[repr(C)]
struct Proposal { size: i64, feeds: *const Feed, requests: *const i64, tokens: *const i32, offsets: *const i64 }
#[repr(C)]
struct Finished { request: i64, tokens: *const i32, size: i64, reason: i32, cached: i64, target_calls: i64, drafted: i64, accepted: i64 }

#[link(name = "specdec_c")]
extern "C" {
    fn specdec_draw_flat(kind: i32, row: *const f32, vocab_size: i64, temperature: f64, rng: *mut Philox, token: *mut i32,
                         error: *mut c_char, error_size: usize) -> i32;
    fn specdec_verify_flat(kind: i32, target: *const f32, draft: *const f32, vocab_size: i64, temperatures: *const f64,
                           rules: *const i32, memories: *const *mut c_void, tokens: *const i32, parents: *const i32,
                           offsets: *const i64, drafts: i64, rngs: *mut Philox, paths: *mut i32, verdicts: *mut Verdict,
                           statuses: *mut i32, errors: *mut c_char, error_size: usize) -> i32;
    fn specdec_requests_create(requests: *mut *mut c_void, vocab_size: i64, context_size: i64, error: *mut c_char,
                               error_size: usize) -> i32;
    fn specdec_requests_destroy(requests: *mut c_void);
    fn specdec_requests_add(requests: *mut c_void, prompt: *const i32, prompt_size: i64, cached: i64, max_new_tokens: i64,
                            gamma: i64, stop_tokens: *const i32, stop_token_count: i64, number: *mut i64,
                            error: *mut c_char, error_size: usize) -> i32;
    fn specdec_requests_fork(requests: *mut c_void, of: i64, cached: i64, number: *mut i64, error: *mut c_char,
                             error_size: usize) -> i32;
    fn specdec_requests_text(requests: *const c_void, number: i64, text: *mut Text, error: *mut c_char, error_size: usize) -> i32;
    fn specdec_requests_propose(requests: *mut c_void, drafted: *const i64, count: i64, tokens: *const i32, offsets: *const i64,
                                proposal: *mut Proposal, error: *mut c_char, error_size: usize) -> i32;
    fn specdec_requests_settle(requests: *mut c_void, settled: *const i64, verdicts: *const Verdict, count: i64,
                               finished: *mut *const Finished, finished_count: *mut i64, error: *mut c_char,
                               error_size: usize) -> i32;
    fn specdec_requests_pause(requests: *mut c_void, number: i64, paused: *mut *mut c_void, error: *mut c_char,
                              error_size: usize) -> i32;
    fn specdec_requests_resume(requests: *mut c_void, paused: *mut *mut c_void, cached: i64, error: *mut c_char,
                               error_size: usize) -> i32;
}

struct Engine { requests: *mut c_void, verifying: Vec<Philox>, drafting: Vec<Philox>, error: [c_char; 256] }

impl Engine {
    fn check(&self, status: i32) {
        assert!(status == 0, "{}", unsafe { CStr::from_ptr(self.error.as_ptr()) }.to_string_lossy());
    }

    fn add(&mut self, first: i32) -> i64 {
        let mut number = 0;
        let status = unsafe { specdec_requests_add(self.requests, &first, 1, 0, WANTED, GAMMA as i64, null(), 0, &mut number,
                                                   self.error.as_mut_ptr(), 256) };
        self.check(status);
        number
    }

    // One round for some requests. Leaves those that are still there.
    fn round(&mut self, live: &mut Vec<i64>) {
        let (mut drafts, mut offsets) = (vec![], vec![0i64]);
        for &request in live.iter() {
            let mut text = Text { tokens: null(), size: 0, new_tokens: 0, kept: 0 };
            let status = unsafe { specdec_requests_text(self.requests, request, &mut text, self.error.as_mut_ptr(), 256) };
            self.check(status);
            let mut last = unsafe { *text.tokens.add(text.size as usize - 1) };
            for _ in 0..GAMMA {
                let row = DRAFT[last as usize];
                let status = unsafe { specdec_draw_flat(PROBABILITIES, row.as_ptr(), VOCABULARY, 0.0,
                                                        &mut self.drafting[request as usize], &mut last,
                                                        self.error.as_mut_ptr(), 256) };
                self.check(status);
                drafts.push(last);
            }
            offsets.push(drafts.len() as i64);
        }
        let mut out = Proposal { size: 0, feeds: null(), requests: null(), tokens: null(), offsets: null() };
        let status = unsafe { specdec_requests_propose(self.requests, live.as_ptr(), live.len() as i64, drafts.as_ptr(),
                                                       offsets.as_ptr(), &mut out, self.error.as_mut_ptr(), 256) };
        self.check(status);

        let (mut p, mut q, mut numbers) = (vec![], vec![], vec![]);
        for feed in unsafe { from_raw_parts(out.feeds, out.size as usize) } { // an engine cuts its caches here
            let tokens = unsafe { from_raw_parts(feed.tokens, feed.size as usize) };
            let first = (feed.size - feed.rows) as usize;
            p.extend(tokens[first..].iter().map(|&x| TARGET[x as usize]));
            q.extend(tokens[first..tokens.len() - 1].iter().map(|&x| DRAFT[x as usize]));
            numbers.push(self.verifying[feed.request as usize]);
        }
        let size = out.size as usize;
        let (rules, mut verdicts, mut statuses) = (vec![BLOCK; size], vec![Verdict { accepted: 0, token: 0 }; size], vec![0; size]);
        let status = unsafe { specdec_verify_flat(PROBABILITIES, p.as_ptr().cast(), q.as_ptr().cast(), VOCABULARY, null(),
                                                  rules.as_ptr(), null(), out.tokens, null(), out.offsets, out.size,
                                                  numbers.as_mut_ptr(), null_mut(), verdicts.as_mut_ptr(),
                                                  statuses.as_mut_ptr(), null_mut(), 0) };
        self.check(status);
        for (i, &request) in unsafe { from_raw_parts(out.requests, size) }.iter().enumerate() {
            self.verifying[request as usize] = numbers[i];
        }

        let (mut finished, mut ended): (*const Finished, i64) = (null(), 0);
        let status = unsafe { specdec_requests_settle(self.requests, out.requests, verdicts.as_ptr(), out.size, &mut finished,
                                                      &mut ended, self.error.as_mut_ptr(), 256) };
        self.check(status);
        for i in 0..ended as usize {
            let done = unsafe { &*finished.add(i) };
            let words: Vec<String> =
                unsafe { from_raw_parts(done.tokens, done.size as usize) }.iter().map(|x| x.to_string()).collect();
            println!("request {}: {} in {} target calls", done.request, words.join(" "), done.target_calls);
            live.retain(|&request| request != done.request);
        }
    }
}

fn main() {
    // The random numbers of request r have streams of their own: 2r for its verifications, 2r + 1 for its drafts.
    let stream = |stream| Philox { seed: 42, offset: 0, stream };
    let mut engine = Engine { requests: null_mut(), verifying: (0..4).map(|r| stream(2 * r)).collect(),
                              drafting: (0..4).map(|r| stream(2 * r + 1)).collect(), error: [0; 256] };
    let status = unsafe { specdec_requests_create(&mut engine.requests, VOCABULARY, 0, engine.error.as_mut_ptr(), 256) };
    engine.check(status);
    let mut live = vec![engine.add(0), engine.add(1), engine.add(2)];
    engine.round(&mut live);
    let mut paused = null_mut();
    let status = unsafe { specdec_requests_pause(engine.requests, live.remove(1), &mut paused, engine.error.as_mut_ptr(), 256) };
    engine.check(status);
    let mut twin = 0;
    let status = unsafe { specdec_requests_fork(engine.requests, live[0], 0, &mut twin, engine.error.as_mut_ptr(), 256) };
    engine.check(status);
    live.push(twin);
    while !live.is_empty() { engine.round(&mut live); }
    let status = unsafe { specdec_requests_resume(engine.requests, &mut paused, 0, engine.error.as_mut_ptr(), 256) };
    engine.check(status);
    live.push(1);
    while !live.is_empty() { engine.round(&mut live); }
    unsafe { specdec_requests_destroy(engine.requests) };
}
