// must say: the head is no specdec::Head
// A head that does not say how a state begins.
// SPDX-License-Identifier: MIT
#include <specdec/more/heads/head_model.hpp>
#include <specdec/testing.hpp>

struct Target : specdec::testing::TableModel<> {
  using TableModel::TableModel;
  specdec::Index length() const { return 0; }
  Eigen::VectorXf hidden() const { return Eigen::VectorXf::Zero(1); }
};

struct Head {
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
};

void use(Target& target, std::span<const specdec::Token> tokens) {
  specdec::HeadModel head{target, Head{}};
  head.forward(tokens, 1);
}
