// must say: the layer is neither a specdec::DraftLayer nor a specdec::BatchDraftLayer
// A layer that does not say what a state of the target is for it.
// SPDX-License-Identifier: MIT
#include <specdec/more/heads/eagle_model.hpp>
#include <specdec/testing.hpp>

struct Target : specdec::testing::TableModel<> {
  using TableModel::TableModel;
  specdec::Index length() const { return 0; }
  Eigen::VectorXf hidden_at(specdec::Index) const { return Eigen::VectorXf::Zero(1); }
};

struct Layer {
  specdec::Index vocab_size() const { return 2; }
  specdec::Index state_size() const { return 1; }
#ifdef FIXED
  void begin(const Eigen::VectorXf& hidden, Eigen::Ref<Eigen::VectorXf> state) { state = hidden; }
#endif
  Eigen::MatrixXf forward(const Eigen::Ref<const Eigen::MatrixXf>& states, std::span<const specdec::Token>,
                          Eigen::Ref<Eigen::MatrixXf> next, specdec::Index rows) {
    next = states;
    return Eigen::MatrixXf::Zero(rows, 2);
  }
  void truncate(specdec::Index) {}
};

void use(Target& target, std::span<const specdec::Token> tokens) {
  specdec::EagleModel eagle{target, Layer{}};
  eagle.forward(tokens, 1);
}
