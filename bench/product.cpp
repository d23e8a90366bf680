// Times the products of the example transformer: all matrices of a layer as large as the shipped target's, four layers and the
// classifier, times 1 to 8 vectors. See the script `product`.
//
//   floats, halves   product() of examples/apps/transformer/product.hpp
//   eigen            Eigen's product of float matrices
//   blas             sgemm of the BLAS that is linked, if SPECDEC_BLAS is defined
//
// SPDX-License-Identifier: MIT
#include "transformer/product.hpp"

#include <benchmark/benchmark.h>

#include <Eigen/Core>
#include <string>
#include <vector>

#include "transformer/panels.hpp"

#ifdef SPECDEC_BLAS
extern "C" void cblas_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                            const float* a, int a_stride, const float* b, int b_stride, float beta, float* c,
                            int c_stride);
#endif

namespace {

using Eigen::Index;

constexpr Index most_vectors = 8, most_rows = 1280, most_cols = 640;

/// The matrices in the order in which a token runs through them.
std::vector<Eigen::MatrixXf> make_matrices() {
  std::vector<Eigen::MatrixXf> out;
  for (int layer = 0; layer < 4; ++layer)
    for (const auto& [rows, cols] : {std::pair<Index, Index>{512, 256}, {256, 256}, {1280, 256}, {256, 640}})
      out.push_back(Eigen::MatrixXf::Random(rows, cols));
  out.push_back(Eigen::MatrixXf::Random(1024, 256));
  return out;
}
const std::vector<Eigen::MatrixXf>& matrices() {
  static const std::vector<Eigen::MatrixXf> made = make_matrices();
  return made;
}

template <class Scalar>
const std::vector<transformer::Panels<Scalar>>& panels() {
  static const auto made = [] {
    std::vector<transformer::Panels<Scalar>> out;
    for (const Eigen::MatrixXf& matrix : matrices()) {
      out.emplace_back(matrix.rows(), matrix.cols());
      out.back().set_rows(0, matrix);
    }
    return out;
  }();
  return made;
}

/// Times multiply(w, x, y) for all matrices w: y = w x.
template <class Matrices, class Multiply>
void time(benchmark::State& state, const Matrices& all, const Multiply& multiply) {
  const Eigen::MatrixXf x = Eigen::MatrixXf::Random(most_cols, most_vectors);
  Eigen::MatrixXf y = Eigen::MatrixXf::Zero(most_rows, most_vectors);
  for (auto _ : state)
    for (const auto& w : all) {
      multiply(w, x, y);
      benchmark::DoNotOptimize(y.data());
      benchmark::ClobberMemory();
    }
}

template <class Scalar>
void panels_product(benchmark::State& state, Index n) {
  time(state, panels<Scalar>(), [n](const auto& w, const auto& x, auto& y) {
    transformer::product(w.view(), {x.data(), n, x.rows()}, y.data(), y.rows());
  });
}

void eigen_product(benchmark::State& state, Index n) {
  time(state, matrices(), [n](const auto& w, const auto& x, auto& y) {
    y.topLeftCorner(w.rows(), n).noalias() = w * x.topLeftCorner(w.cols(), n);
  });
}

#ifdef SPECDEC_BLAS
void blas_product(benchmark::State& state, Index n) {
  time(state, matrices(), [n](const auto& w, const auto& x, auto& y) {
    const int rows = static_cast<int>(w.rows()), cols = static_cast<int>(w.cols());
    cblas_sgemm(102, 111, 111, rows, static_cast<int>(n), cols, 1, w.data(), rows, x.data(),
                static_cast<int>(x.rows()), 0, y.data(), static_cast<int>(y.rows()));
  });
}
#endif

}  // namespace

int main(int argc, char** argv) {
  const auto add = [](const char* name, void (*bench)(benchmark::State&, Index)) {
    for (Index n = 1; n <= most_vectors; ++n)
      benchmark::RegisterBenchmark((std::string(name) + '/' + std::to_string(n)).c_str(), bench, n);
  };
  add("floats", panels_product<float>);
  add("halves", panels_product<Eigen::half>);
  add("eigen", eigen_product);
#ifdef SPECDEC_BLAS
  add("blas", blas_product);
#endif
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
