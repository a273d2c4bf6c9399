#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "distributed/group/membership/members.h"
#include "distributed/group/network/run_until.h"
#include "distributed/group/store/sealed_texts.h"

namespace accrue::distributed {

/// How processes agree on the next group of their run, by texts in its store: each writes that it
/// is here, and the first that knows for whom not to wait (next_members) decides for all. No
/// process leads, so any of them may be lost meanwhile.
///
/// Calls block, and throw, as SealedTexts do. Any thread may make them; one that blocks can be
/// abandoned.
class Membership {
 public:
  /// A member of the run's first group, which has `world` ranks. has_applicants() reads `line`, by
  /// another connection than `texts`.
  Membership(SealedTexts texts, SealedTexts line, Member own, int world);
  /// A process that arrives after the `world` ranks of the first group have met.
  Membership(SealedTexts texts, SealedTexts line, int world);

  /// Whether the ranks of a run have met; a rank of the first group records it.
  static bool have_met(const SealedTexts& texts);
  static void announce_all_met(const SealedTexts& texts);

  /// For a process that comes late: whether a member of the last decided group gave a sign of life
  /// since the first call.
  bool has_live_member();
  /// Asks to join. From then on this process has a number, and has to give signs of life.
  void apply();

  struct Status {
    bool is_decided = false;     ///< list() is the next group's
    std::int64_t present = 0;    ///< of a group that would have too few ranks; 0: not known yet
    bool is_first = false;       ///< this process would be that group's first
    bool has_reapplied = false;  ///< own() has changed: this process was taken for gone
    bool is_left_alone = false;  ///< no member lives that could let this process in
  };
  /// Looks once which processes are there, and decides if possible; call it until it is decided. A
  /// group has `least` ranks or more. A member that lives is waited for as long as `patience`.
  Status poll(std::int64_t least, std::chrono::milliseconds patience);

  /// Call it once the decided group works. A process that joined a group which never worked is left
  /// out of the next one.
  void settle();

  /// The last group that was decided.
  const MemberList& list() const { return list_; }
  Member own() const { return own_; }
  static constexpr Member kNobody = -1;  ///< own() of a process that has not applied yet
  /// Whether a process has asked to join since then, and gave a sign of life over several calls.
  /// Only the first kMostAsked in line are asked.
  bool has_applicants();
  static constexpr std::int64_t kMostAsked = 16;

 private:
  struct Seen {
    std::optional<std::string> beat;
    Deadline since;
    bool is_alive = false;
  };

  std::optional<MemberList> decided() const;
  void take(MemberList next);
  bool take_next();
  Status poll_admission();
  Status poll_members(std::int64_t least, std::chrono::milliseconds patience);
  /// An applicant, and its last sign of life.
  struct Applicant {
    Member member;
    std::optional<std::string> beat;
  };
  static std::vector<Applicant> read_line(const SealedTexts& texts, std::int64_t first,
                                          std::int64_t most);
  void leave_out_outage();
  Candidate observe(Member member, std::optional<std::string> beat);
  std::vector<Candidate> observe(const std::vector<Applicant>& applicants);
  std::vector<Candidate> old_members();
  std::vector<Candidate> applicants();

  std::mutex mutex_;
  SealedTexts texts_, line_;
  Member own_ = kNobody;
  MemberList list_;
  std::vector<Member> settled_;    ///< of the last group that worked
  std::int64_t application_ = 0;   ///< the number of this process's; 0: it did not need one
  std::optional<Deadline> began_;  ///< when this process asked for the next group
  std::map<Member, Seen> seen_;
  std::optional<Deadline> looked_;  ///< when a sign of life was last read
};

}  // namespace accrue::distributed
