#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
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
/// Calls block, and throw, as SealedTexts do. Any thread may make them: one that blocks is left to
/// itself.
class Membership {
 public:
  /// A member of the run's first group, which has `world` ranks. has_applicants() reads `line`, by
  /// another connection than `texts`.
  Membership(SealedTexts texts, SealedTexts line, Member own, int world);
  /// A process that comes when the `world` ranks of the first group have met.
  Membership(SealedTexts texts, SealedTexts line, int world);

  /// Whether the ranks of a run have met; a rank of the first group says so.
  static bool have_met(const SealedTexts& texts);
  static void tell_that_all_met(const SealedTexts& texts);

  /// For a process that comes late: whether a member of the last group that was decided on gave a
  /// sign of life since this was first asked.
  bool shows_life();
  /// Asks to join. From then on this process has a number, and has to give signs of life.
  void apply();

  struct Look {
    bool is_decided = false;     ///< list() is the next group's
    std::int64_t present = 0;    ///< of a group that would have too few ranks; 0: not known yet
    bool is_first = false;       ///< this process would be that group's first
    bool has_reapplied = false;  ///< own() is another than before: it was taken for gone
    bool is_left_alone = false;  ///< nobody lives who could let this process in
  };
  /// Looks once who is there, and decides where that can be; to be called until it is decided. A
  /// group has `least` ranks or more. A member that lives is waited for as long as `patience`.
  Look look(std::int64_t least, std::chrono::milliseconds patience);

  /// To be called once the group that was decided on works. Who joined a group that never did is
  /// left out of the next one.
  void settle();

  /// The last group that was decided on.
  const MemberList& list() const { return list_; }
  Member own() const { return own_; }
  static constexpr Member kNobody = -1;  ///< own() of a process that has not applied yet
  /// Whether somebody asked to join since then, and gave a sign of life while this was asked again
  /// and again. Of those who stand in line it looks at kMostAsked, the first ones.
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
  Look look_whether_admitted();
  Look look_with_others(std::int64_t least, std::chrono::milliseconds patience);
  /// An applicant, and what it wrote as its last sign of life.
  struct Applicant {
    Member member;
    std::optional<std::string> beat;
  };
  static std::vector<Applicant> read_line(const SealedTexts& texts, std::int64_t first,
                                          std::int64_t most);
  Candidate observe(Member member, std::optional<std::string> beat);
  std::vector<Candidate> observe(const std::vector<Applicant>& applicants);
  std::vector<Candidate> old_members();
  std::vector<Candidate> applicants();

  std::mutex mutex_;
  SealedTexts texts_, line_;
  Member own_ = kNobody;
  MemberList list_;
  std::vector<Member> settled_;    ///< of the last group that worked
  std::int64_t application_ = 0;   ///< the number of this process's; 0: it needed none
  std::optional<Deadline> began_;  ///< when this process asked for the next group
  std::map<Member, Seen> seen_;
};

}  // namespace accrue::distributed
