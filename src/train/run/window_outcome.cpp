#include "train/run/window_outcome.h"

namespace accrue::train {
namespace {

struct Decide {
  bool may_restart;

  NextAttempt operator()(const outcome::Whole&) const { return NextAttempt::none; }
  NextAttempt operator()(const outcome::Interrupted&) const { return NextAttempt::none; }
  NextAttempt operator()(const outcome::FillAgain&) const { return NextAttempt::fill_again; }
  NextAttempt operator()(const outcome::ClosedEarly&) const { return NextAttempt::fill_rest; }
  NextAttempt operator()(const outcome::Failed& failed) const {
    return failed.is_out_of_memory && !failed.is_torn && may_restart ? NextAttempt::restart
                                                                     : NextAttempt::fail;
  }
};

}  // namespace

NextAttempt next_attempt(const WindowOutcome& outcome, bool may_restart) {
  return std::visit(Decide{may_restart}, outcome);
}

}  // namespace accrue::train
