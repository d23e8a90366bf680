// An engine loop in Rust: rustc -O -L folder_of_the_library loop.rs. See loop.c.
use std::ffi::{c_void, CStr};
use std::os::raw::c_char;
use std::ptr::{null, null_mut};

// The two models: row x is the distribution after token x.
const TARGET: [[f32; 4]; 4] = [[0.1, 0.6, 0.2, 0.1], [0.5, 0.1, 0.3, 0.1], [0.2, 0.2, 0.1, 0.5], [0.7, 0.1, 0.1, 0.1]];
const DRAFT: [[f32; 4]; 4] = [[0.2, 0.5, 0.2, 0.1], [0.3, 0.2, 0.4, 0.1], [0.1, 0.2, 0.1, 0.6], [0.4, 0.2, 0.2, 0.2]];
const VOCABULARY: i64 = 4;
const GAMMA: usize = 3;
const WANTED: usize = 20;
const PROBABILITIES: i32 = 0;
const BLOCK: i32 = 0;

#[repr(C)]
struct Philox { seed: u64, offset: u64, stream: u64 }
#[repr(C)]
struct Verdict { accepted: i64, token: i32 }

#[link(name = "specdec_c")]
extern "C" {
    fn specdec_c_version() -> i32;
    fn specdec_draw_flat(kind: i32, row: *const f32, vocab_size: i64, temperature: f64, rng: *mut Philox, token: *mut i32,
                         error: *mut c_char, error_size: usize) -> i32;
    fn specdec_verify_flat(kind: i32, target: *const f32, draft: *const f32, vocab_size: i64, temperatures: *const f64,
                           rules: *const i32, memories: *const *mut c_void, tokens: *const i32, parents: *const i32,
                           offsets: *const i64, drafts: i64, rngs: *mut Philox, paths: *mut i32, verdicts: *mut Verdict,
                           statuses: *mut i32, errors: *mut c_char, error_size: usize) -> i32;
}

fn check(status: i32, error: &[c_char]) {
    assert!(status == 0, "{}", unsafe { CStr::from_ptr(error.as_ptr()) }.to_string_lossy());
}

fn main() {
    assert_eq!(unsafe { specdec_c_version() }, 3);
    // Drafts and verifications take their random numbers from different streams.
    let mut verifying = Philox { seed: 42, offset: 0, stream: 0 };
    let mut drafting = Philox { seed: 42, offset: 0, stream: 1 };
    let mut error: [c_char; 256] = [0; 256];
    let (mut text, mut calls) = (vec![0i32], 0);
    while text.len() <= WANTED {
        let mut last = text[text.len() - 1];
        let (mut p, mut q, mut tokens) = (vec![TARGET[last as usize]], vec![], [0i32; GAMMA]);
        for token in tokens.iter_mut() {
            let row = DRAFT[last as usize];
            check(unsafe { specdec_draw_flat(PROBABILITIES, row.as_ptr(), VOCABULARY, 0.0, &mut drafting, token,
                                             error.as_mut_ptr(), error.len()) }, &error);
            last = *token;
            q.push(row);
            p.push(TARGET[last as usize]);
        }
        let (mut verdict, mut status) = (Verdict { accepted: 0, token: 0 }, 0);
        check(unsafe { specdec_verify_flat(PROBABILITIES, p[0].as_ptr(), q[0].as_ptr(), VOCABULARY, null(), &BLOCK, null(),
                                           tokens.as_ptr(), null(), [0, GAMMA as i64].as_ptr(), 1, &mut verifying, null_mut(),
                                           &mut verdict, &mut status, error.as_mut_ptr(), error.len()) }, &error);
        text.extend(&tokens[..verdict.accepted as usize]);
        text.push(verdict.token); // both caches then keep all tokens but this one
        calls += 1;
    }
    let words: Vec<String> = text[1..=WANTED].iter().map(|x| x.to_string()).collect();
    println!("{} in {} target calls", words.join(" "), calls);
}
