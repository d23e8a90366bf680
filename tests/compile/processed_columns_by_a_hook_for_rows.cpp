// must say: or a specdec::PartialLogits if the model returns some columns
// A hook that takes whole rows cannot know which columns it would be given.
// SPDX-License-Identifier: MIT
#include <specdec/more/ranks.hpp>
#include <specdec/specdec.hpp>

struct Mine {
  specdec::Index vocab_size() const { return 8; }
  specdec::LogitColumns<specdec::NumbersOf<Eigen::MatrixXf>> forward(std::span<const specdec::Token>,
                                                                     specdec::Index);
  void truncate(specdec::Index);
};

#ifdef FIXED
using Logits = specdec::PartialLogits<float>;
#else
using Logits = Eigen::Ref<Eigen::RowVectorXf>;
#endif

void use(Mine& model) {
  specdec::ProcessedModel target{model, [](std::span<const specdec::Token>, Logits) {}};
  target.truncate(0);
}
