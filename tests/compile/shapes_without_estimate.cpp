// must say: or its Learner lacks branches, Learner(family, decay), reach(most), observe(step), limit(steps), estimate()
// A family of shapes that is never asked to make up its mind.
#include <specdec/specdec.hpp>

struct Shapes : specdec::LineShapes {
  struct Learner {
    static constexpr bool branches = false;
    Learner(const Shapes&, double) {}
    specdec::DraftLimits reach(specdec::Index) { return {}; }
    void observe(const specdec::StepRecord&) {}
    void limit(double) {}
#ifdef FIXED
    void estimate() {}
#endif
    double proposed(specdec::Index) const { return 1; }
    double reached(double, specdec::Index, specdec::Index, bool) const { return 0; }
  };
};

void use() {
  specdec::CostOptimalLength<Shapes> policy;
  policy.next(4);
}
