// The logits that a model returns: how they are kept, changed and checked.
#pragma once

#include <Eigen/Core>
#include <type_traits>
#include <utility>

#include "specdec/error.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/rows/owning_temporary.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// One row of logits to be changed in place, in the arithmetic of the model's logits.
template <class Logits>
using LogitsRef = Eigen::Ref<
    Eigen::Matrix<typename std::remove_cvref_t<decltype(std::declval<NumbersOf<Logits>&>().row(0))>::Scalar,
                  1, Eigen::Dynamic>>;

/// What logits that are returned as a matrix are kept as; nothing of others, which the model keeps.
template <class Logits, bool kept = OwningTemporary<Logits>>
struct KeptAs {
  struct Type {};
};
template <class Logits>
struct KeptAs<Logits, true> {
  using Type = std::remove_cvref_t<Logits>;
};
template <class Logits>
  requires requires { typename Logits::PlainObject; }
struct KeptAs<Logits, true> {
  using Type = typename Logits::PlainObject;
};

/// Refuses logits of another shape than asked for.
template <class Logits>
void check_shape(const Logits& logits, Index rows, Index vocab_size) {
  if (logits.rows() != rows || (rows > 0 && logits.cols() != vocab_size))
    invalid_argument("the model returned logits of ", logits.rows(), " rows over ", logits.cols(),
                     " tokens, expected ", rows, " rows over its vocabulary of ", vocab_size);
}

}  // namespace specdec::detail
