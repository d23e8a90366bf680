// must say: takes a family of shapes
// What is a policy told to choose from: not how long a line may be, but shapes.
#include <specdec/specdec.hpp>

void use() {
#ifdef FIXED
  specdec::CostOptimalLength policy{specdec::SpareShapes{.most_nodes = 8}};
#else
  specdec::CostOptimalLength<int> policy{8};
#endif
  policy.next(4);
}
