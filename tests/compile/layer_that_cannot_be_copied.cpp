// must say: the layer cannot be copied, but with a target for many texts each text has a copy of it
// A layer for many texts that is not copied.
// SPDX-License-Identifier: MIT
#include <memory>
#include <specdec/more/heads/eagle_model.hpp>
#include <specdec/testing.hpp>

struct Target {
  specdec::Index length(specdec::Index) const { return 0; }
  Eigen::VectorXf hidden_at(specdec::Index, specdec::Index) const { return Eigen::VectorXf::Zero(1); }
};

struct Layer {
#ifdef FIXED
  std::shared_ptr<int> weights;
#else
  std::unique_ptr<int> weights;
#endif
  specdec::Index vocab_size() const { return 2; }
  specdec::Index state_size() const { return 1; }
  void begin(const Eigen::VectorXf& hidden, Eigen::Ref<Eigen::VectorXf> state) { state = hidden; }
  Eigen::MatrixXf forward(const Eigen::Ref<const Eigen::MatrixXf>& states, std::span<const specdec::Token>,
                          Eigen::Ref<Eigen::MatrixXf> next, specdec::Index rows) {
    next = states;
    return Eigen::MatrixXf::Zero(rows, 2);
  }
  void truncate(specdec::Index) {}
};

void use(Target& target, std::span<const specdec::BatchFeed> feeds) {
  specdec::EagleModel eagle{target, Layer{}};
  eagle.forward(feeds);
}
