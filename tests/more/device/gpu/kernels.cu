// The pieces of a verification as kernels, to be compiled to PTX and looked at: see .ci/gpu. Nothing launches them.
// SPDX-License-Identifier: MIT
#include <cstdlib>
#include <specdec/more/device/requests.hpp>
#include <specdec/more/device/warp.hpp>
#include <specdec/verify/rules/argmax.hpp>
#include <specdec/verify/rules/block.hpp>
#include <specdec/verify/rules/lenient.hpp>
#include <specdec/verify/rules/sample_match.hpp>
#include <specdec/verify/rules/token.hpp>

#ifdef __clang__
#define KERNEL extern "C" __attribute__((flatten)) __global__ void
__device__ inline unsigned block_x() { return __nvvm_read_ptx_sreg_ctaid_x(); }
__device__ inline unsigned block_y() { return __nvvm_read_ptx_sreg_ctaid_y(); }
__device__ inline unsigned block_z() { return __nvvm_read_ptx_sreg_ctaid_z(); }
__device__ inline unsigned thread_x() { return __nvvm_read_ptx_sreg_tid_x(); }
#else
#define KERNEL extern "C" __global__ void
__device__ inline unsigned block_x() { return blockIdx.x; }
__device__ inline unsigned block_y() { return blockIdx.y; }
__device__ inline unsigned block_z() { return blockIdx.z; }
__device__ inline unsigned thread_x() { return threadIdx.x; }
#endif

using namespace specdec;
using namespace specdec::device;

// x: segments, 4 warps a block; y: position in the draft; z: request.
template <class R>
SPECDEC_DEVICE void sum(const R& requests) {
  const Index s = block_x() * 4 + thread_x() / 32;
  if (s < requests.segments()) sum_segment_of(Warp{}, requests, block_z(), block_y(), s);
}
KERNEL sum_float(Requests<float, DenseDrafts<float>> r) { sum(r); }
KERNEL sum_half(Requests<Half, DenseDrafts<Half>> r) { sum(r); }
KERNEL sum_bfloat16(Requests<Bfloat16, DenseDrafts<Bfloat16>> r) { sum(r); }

// 8 warps a block. y: position in the draft; z: request.
KERNEL finish_bfloat16(Requests<Bfloat16, DenseDrafts<Bfloat16>> r) {
  __shared__ CrewMemory<8> memory;
  WarpCrew<8> crew(memory);
  finish_row_of(crew, r, block_z(), block_y());
}

// 8 warps a block. x: request.
template <class Rule, class R>
SPECDEC_DEVICE void judge(const Rule& rule, const R& requests, CrewMemory<8>& memory) {
  WarpCrew<8> crew(memory);
  judge_request(crew, rule, requests, block_x());
}
#define JUDGE(name, Rule, Scalar, Drafts)   \
  KERNEL name(Requests<Scalar, Drafts> r) { \
    __shared__ CrewMemory<8> memory;        \
    judge(Rule{}, r, memory);               \
  }
JUDGE(judge_block, BlockVerifier, Bfloat16, DenseDrafts<Bfloat16>)
JUDGE(judge_token, TokenVerifier, Bfloat16, DenseDrafts<Bfloat16>)
JUDGE(judge_block_lists, BlockVerifier, float, ListedDrafts)
JUDGE(judge_token_chosen, TokenVerifier, float, ChosenDrafts)
JUDGE(judge_sample_match, SampleMatchVerifier, float, ChosenDrafts)
JUDGE(judge_argmax, ArgmaxVerifier, Bfloat16, ChosenDrafts)
KERNEL judge_lenient(Requests<Bfloat16, DenseDrafts<Bfloat16>> r, LenientVerifier rule) {
  __shared__ CrewMemory<8> memory;
  judge(rule, r, memory);
}
