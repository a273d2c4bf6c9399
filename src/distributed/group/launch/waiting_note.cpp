#include "distributed/group/launch/waiting_note.h"

#include <algorithm>
#include <utility>

#include "accrue/core/units.h"
#include "distributed/group/network/addresses.h"

namespace accrue::distributed {
namespace {

using std::chrono::milliseconds;

/// A launcher's processes come within less, and the user does not think yet that the program hangs.
constexpr milliseconds kPatience{5000};

/// How to start a process without others.
const char* how_to_be_alone(Launcher how) {
  switch (how) {
    case Launcher::mpirun:
      return "env -u OMPI_COMM_WORLD_RANK -u OMPI_COMM_WORLD_SIZE";
    case Launcher::srun:
      return "srun -n 1, or env -u SLURM_STEP_ID";
    case Launcher::torchrun:
    case Launcher::none:
      break;
  }
  return "env -u RANK -u WORLD_SIZE";
}

std::string reason_of(const Launch& launch, milliseconds timeout) {
  return (launch.stated_by.empty() ? "" : launch.stated_by + " state that ") +
         "this process is rank " + std::to_string(launch.rank) + " of " +
         std::to_string(launch.world) + ", which meet at " +
         place_text(launch.master_addr, launch.master_port) + ". It waits for " +
         format_seconds(std::chrono::duration<double>(timeout).count()) +
         " at most (dist.timeout). To train without others: " + how_to_be_alone(launch.how);
}

}  // namespace

WaitingNote::WaitingNote(const Launch& launch, milliseconds timeout, Tell tell)
    : reason_(reason_of(launch, timeout)),
      tell_(std::move(tell)),
      due_(tell_ ? from_now(std::min(kPatience, timeout / 2)) : Deadline::max()) {}

void WaitingNote::say(const std::string& whom) {
  due_ = Deadline::max();
  tell_("waiting for " + whom + ": " + reason_);
}

}  // namespace accrue::distributed
