#include "distributed/group/rendezvous/earlier_run.h"

#include "distributed/group/rendezvous/rank_announcement.h"

namespace accrue::distributed {

bool EarlierRun::lives(const std::optional<std::string>& start) {
  if (!start) return false;
  const bool is_known = membership_ && *start == start_;
  return (is_known || finds(*start)) && membership_->has_live_member();
}

bool EarlierRun::finds(const std::string& start) {
  membership_.reset();
  start_ = start;
  connections_.set_start(start);
  connections_.set_run("");
  const Reading rank_0 = connections_.notes().read(std::string(kAnnouncement) + "/0");
  is_sealed_otherwise_ = rank_0.is_there && !rank_0.text;
  if (!rank_0.text) return false;
  connections_.set_run(RankAnnouncement::of(*rank_0.text).run);
  const SealedTexts of_run = connections_.notes();
  if (Membership::have_met(of_run))
    membership_ = std::make_shared<Membership>(of_run, connections_.heartbeats(), world_);
  return membership_ != nullptr;
}

}  // namespace accrue::distributed
