#include <limits>
#include <specdec/specdec.hpp>

#include "catch.hpp"
#include "support.hpp"

using namespace specdec;
using support::message_of;

TEST_CASE("validate accepts distributions and names what is none") {
  Eigen::MatrixXd m(3, 2);
  m << 0.5, 0.5, 1, 0, 0.25, 0.75;
  CHECK_NOTHROW(validate(m));
  CHECK_NOTHROW(validate(m.topRows(2)));
  CHECK_NOTHROW(validate(Eigen::MatrixXd(0, 2)));
  m(2, 1) = 0.7;
  CHECK(message_of([&] { validate(m, "target"); }) == "specdec: target row 2: the probabilities sum to 0.95");
  CHECK_NOTHROW(validate(m, "target", 0.1));
  m(1, 1) = -0.125;
  CHECK(message_of([&] { validate(m, "draft"); }) ==
        "specdec: draft row 1: the probability of token 1 is -0.125");
  m(0, 0) = std::numeric_limits<double>::quiet_NaN();
  CHECK(message_of([&] { validate(m); }) ==
        "specdec: probabilities row 0: the probability of token 0 is nan");
  m.setZero();
  CHECK_THROWS_AS(validate(m), InvalidDistribution);
}
