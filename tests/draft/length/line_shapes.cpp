#include <specdec/draft/length/line_shapes.hpp>
#include <vector>

#include "support/catch.hpp"

namespace test_draft_line_shapes {

using specdec::Index;
using specdec::LineShapes;

TEST_CASE("lines learn how many tokens are proposed and survive, position by position") {
  LineShapes::Learner learner(LineShapes{}, 1);
  CHECK(learner.reach(4).depth == 4);
  const std::vector<double> whole{1, 0.5, 0.5}, short_one{1};
  for (int step = 0; step < 3000; ++step) {
    learner.observe({.asked = 3, .drafted = 3, .accepted = 1, .fed = 4, .survival = whole});
    learner.observe({.asked = 3, .drafted = 1, .accepted = 1, .fed = 2, .survival = short_one});
  }
  learner.estimate();
  CHECK(learner.proposed(0) == 1);
  CHECK(learner.proposed(1) == Approx(0.5).epsilon(0.01));
  CHECK(learner.reached(1, 0, 0, true) == Approx(1).epsilon(0.01));
  // A token that was not proposed does not survive.
  CHECK(learner.reached(1, 1, 0, true) == Approx(0.25).epsilon(0.01));
  CHECK(learner.reached(1, 2, 0, true) == Approx(0.25).epsilon(0.01));
}

TEST_CASE("lines consider twice the longest draft so far, and at least sixteen tokens") {
  LineShapes::Learner learner(LineShapes{}, 0.99);
  CHECK(learner.reach(1000).nodes == 16);
  const std::vector<double> survival(12, 1.0);
  learner.observe({.asked = 12, .drafted = 12, .accepted = 12, .fed = 13, .survival = survival});
  CHECK(learner.reach(1000).nodes == 24);
  CHECK(learner.reach(1000).depth == 24);
  CHECK(learner.reach(20).nodes == 20);
}

TEST_CASE("the weight of what lines have learnt can be limited") {
  LineShapes::Learner learner(LineShapes{}, 1);
  learner.reach(1);
  const std::vector<double> lost{0}, kept{1};
  for (int step = 0; step < 1000; ++step)
    learner.observe({.asked = 1, .drafted = 1, .accepted = 0, .fed = 2, .survival = lost});
  learner.limit(2);
  for (int step = 0; step < 8; ++step)
    learner.observe({.asked = 1, .drafted = 1, .accepted = 1, .fed = 2, .survival = kept});
  learner.estimate();
  CHECK(learner.reached(1, 0, 0, true) == Approx(0.8).epsilon(0.01));
}

}  // namespace test_draft_line_shapes
