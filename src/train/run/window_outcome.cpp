#include "train/run/window_outcome.h"

namespace accrue::train {
namespace {

NextAttempt after(Filled filled) {
  switch (filled) {
    case Filled::again:
      return NextAttempt::fill_again;
    case Filled::goes_on:
      return NextAttempt::fill_rest;
    case Filled::whole:
    case Filled::interrupted:
      break;
  }
  return NextAttempt::none;
}

}  // namespace

NextAttempt next_attempt(const WindowOutcome& outcome, bool may_restart) {
  if (const auto* filled = std::get_if<Filled>(&outcome)) return after(*filled);
  const auto& failed = std::get<FailedAttempt>(outcome);
  return failed.is_out_of_memory && !failed.is_torn && may_restart ? NextAttempt::restart
                                                                   : NextAttempt::fail;
}

}  // namespace accrue::train
