// must say: the target shows no hidden states
// A head on a target that shows no hidden states.
// SPDX-License-Identifier: MIT
#include <specdec/more/heads/head_model.hpp>
#include <specdec/testing.hpp>

struct Target : specdec::testing::TableModel<> {
  using TableModel::TableModel;
  specdec::Index length() const { return 0; }
#ifdef FIXED
  Eigen::VectorXf hidden() const { return Eigen::VectorXf::Zero(1); }
#endif
};

struct Head {
  specdec::Index vocab_size() const { return 2; }
  specdec::Index state_size() const { return 1; }
  void begin(const Eigen::VectorXf& hidden, Eigen::Ref<Eigen::VectorXf> state) { state = hidden; }
  Eigen::MatrixXf forward(const Eigen::Ref<const Eigen::MatrixXf>& states, std::span<const specdec::Token>,
                          Eigen::Ref<Eigen::MatrixXf> next, specdec::Index rows) {
    next = states;
    return Eigen::MatrixXf::Zero(rows, 2);
  }
};

void use(Target& target, std::span<const specdec::Token> tokens) {
  specdec::HeadModel head{target, Head{}};
  head.forward(tokens, 1);
}
