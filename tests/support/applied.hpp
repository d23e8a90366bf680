// What a processor makes of a row of logits.
#pragma once

#include <Eigen/Core>
#include <iterator>
#include <vector>

namespace support {

inline Eigen::RowVectorXd applied(auto processor, const std::vector<double>& logits) {
  Eigen::RowVectorXd row = Eigen::Map<const Eigen::RowVectorXd>(logits.data(), std::ssize(logits));
  processor.apply(Eigen::Ref<Eigen::RowVectorXd>(row));
  return row;
}

}  // namespace support
