#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "distributed/group/members.h"
#include "distributed/group/run_until.h"
#include "distributed/group/sealed_texts.h"

namespace accrue::distributed {

/// How processes agree on who is in the next group of their run, by texts in its store: each says
/// that it is here, and the first to know for whom not to wait (next_members) decides for all. No
/// process leads, so that any of them may be lost meanwhile.
///
/// Calls block, and throw, as SealedTexts do.
class Membership {
 public:
  /// A member of the run's first group, which has `world` ranks.
  Membership(SealedTexts texts, Member own, int world);
  /// A process that comes when the ranks have met.
  explicit Membership(SealedTexts texts);

  /// Whether the ranks of a run have met; a rank of the first group says so.
  static bool have_met(const SealedTexts& texts);
  static void tell_that_all_met(const SealedTexts& texts);

  /// Asks to join. From then on this process has a number, and has to give signs of life.
  void apply();

  struct Look {
    bool is_decided = false;  ///< list() is the next group's
    std::int64_t present =
        0;  ///< of a group that would have too few ranks; 0: nothing is known yet
  };
  /// Looks once who is there, and decides where that can be; to be called until it is decided. A
  /// group has `least` ranks or more. A member that lives is waited for as long as `patience`.
  Look look(std::int64_t least, std::chrono::milliseconds patience);

  /// The last group that was decided on; of generation 0 without members for one that came late.
  const MemberList& list() const { return list_; }
  Member own() const { return own_; }
  /// Whether somebody asked to join since then, and gave a sign of life while this was asked again.
  bool has_applicants();

 private:
  struct Seen {
    std::optional<std::string> beat;
    Deadline since;
    bool is_alive = false;
  };

  std::optional<MemberList> decided() const;
  Look take(MemberList next);
  Look look_whether_admitted();
  Candidate observe(Member member);
  std::vector<Candidate> old_members();
  std::vector<Candidate> applicants();

  SealedTexts texts_;
  Member own_ = 0;
  MemberList list_;
  std::int64_t application_ = 0;   ///< the number of this process's; 0: it needed none
  std::optional<Deadline> began_;  ///< when this process asked for the next group
  std::map<Member, Seen> seen_;
};

}  // namespace accrue::distributed
