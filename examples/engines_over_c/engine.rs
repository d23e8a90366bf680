// SPDX-License-Identifier: MIT
//! An engine's loop in Rust over the C interface: rustc -L folder-of-the-library engine.rs
//!
//! The target and the draft model are tables: what follows a token depends on that token alone. engine.py and engine.go write the
//! same text.
use std::os::raw::{c_char, c_void};
use std::ptr::null;

const VOCAB: usize = 8;
const GAMMA: usize = 4;
const LENGTH: usize = 40;
const PROBABILITIES: i32 = 0;
const BLOCK: i32 = 0;

#[repr(C)]
struct Philox { seed: u64, offset: u64, stream: u64 }
#[repr(C)]
struct Verdict { accepted: i64, token: i32 }

#[link(name = "specdec_c")]
extern "C" {
    fn specdec_draw_flat(kind: i32, row: *const f32, vocab_size: i64, temperature: f64, rng: *mut Philox, token: *mut i32,
                         error: *mut c_char, error_size: usize) -> i32;
    fn specdec_verify_flat(kind: i32, target: *const f32, draft: *const f32, vocab_size: i64, temperatures: *const f64,
                           rules: *const i32, memories: *const *mut c_void, tokens: *const i32, parents: *const i32,
                           offsets: *const i64, drafts: i64, rngs: *mut Philox, paths: *mut i32, verdicts: *mut Verdict,
                           statuses: *mut i32, errors: *mut c_char, error_size: usize) -> i32;
}

fn row(last: i32, a: i32, b: i32, m: i32) -> Vec<f32> {
    let weights: Vec<i32> = (0..VOCAB as i32).map(|x| 1 + (a * last + b * x) % m).collect();
    let sum: i32 = weights.iter().sum();
    weights.iter().map(|&w| (f64::from(w) / f64::from(sum)) as f32).collect()
}
fn target(last: i32) -> Vec<f32> { row(last, 7, 3, 5) }
fn draft(last: i32) -> Vec<f32> { row(last, 5, 2, 7) }

fn check(status: i32, error: &[u8]) {
    assert!(status == 0, "{}", String::from_utf8_lossy(error));
}

fn main() {
    let mut error = [0u8; 200];
    let mut drafting = Philox { seed: 42, offset: 0, stream: 1 }; // the verification must not see the draft's numbers
    let mut judging = Philox { seed: 42, offset: 0, stream: 0 };
    let (mut text, mut calls) = (vec![0i32], 0);
    while text.len() < LENGTH {
        let (mut drafted, mut draft_rows) = (vec![], vec![]);
        for _ in 0..GAMMA {
            let q = draft(*drafted.last().unwrap_or(&text[text.len() - 1]));
            let mut token = 0;
            let status = unsafe {
                specdec_draw_flat(PROBABILITIES, q.as_ptr(), VOCAB as i64, 1.0, &mut drafting, &mut token,
                                  error.as_mut_ptr().cast(), error.len())
            };
            check(status, &error);
            drafted.push(token);
            draft_rows.extend(q);
        }
        let mut target_rows = target(text[text.len() - 1]); // one call of the target
        drafted.iter().for_each(|&last| target_rows.extend(target(last)));
        let (mut verdict, mut status) = (Verdict { accepted: 0, token: 0 }, 0);
        unsafe {
            specdec_verify_flat(PROBABILITIES, target_rows.as_ptr(), draft_rows.as_ptr(), VOCAB as i64, null(), &BLOCK, null(),
                                drafted.as_ptr(), null(), [0, GAMMA as i64].as_ptr(), 1, &mut judging, std::ptr::null_mut(),
                                &mut verdict, &mut status, error.as_mut_ptr().cast(), error.len());
        }
        check(status, &error);
        text.extend(&drafted[..verdict.accepted as usize]);
        text.push(verdict.token);
        calls += 1;
    }
    println!("{}", text.iter().map(i32::to_string).collect::<Vec<_>>().join(" "));
    println!("{} tokens in {} calls", text.len() - 1, calls);
}
