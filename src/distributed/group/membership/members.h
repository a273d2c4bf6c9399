#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace accrue::distributed {

/// A process that takes part in a run, or asks to, for as long as it lives: the ranks of the first
/// group have their numbers, and those that joined later have the next ones. A rank is a position
/// in a group.
using Member = std::int64_t;

/// The key of a member's signs of life among the texts of a run.
std::string beat_key(Member member);
/// The key of the text that a member's lifeline ended.
std::string death_key(Member member);

/// The group of a generation: the first is 0, and each change makes another.
struct MemberList {
  std::int64_t generation = 0;
  std::vector<Member> members;    ///< by rank, all different
  std::int64_t applications = 0;  ///< how many applications to join were decided

  bool operator==(const MemberList&) const = default;
};

std::string to_text(const MemberList& list);
/// Reads back what to_text() wrote; none if the text is something else.
std::optional<MemberList> member_list(const std::string& text);

/// The rank of `member` in a list; none if it is not in it.
std::optional<int> rank_of(Member member, const MemberList& list);

/// A process that is silent for this long is gone: two signs of life and the time for them to
/// arrive.
inline constexpr std::chrono::milliseconds kGoneAfter{1200};

/// The state of a process for the decision on members.
struct Candidate {
  Member member = 0;
  bool is_here = false;                 ///< it asks for the next group
  std::chrono::milliseconds silence{};  ///< since its last sign of life, or since it is watched
  bool is_alive = false;                ///< it gave a sign of life since it is watched
  bool has_ended = false;               ///< its process ended, as its watcher reported

  bool is_gone() const { return has_ended || silence >= kGoneAfter; }
};

/// The applicants in line on whom a decision is possible: from the first up to one for which it is
/// not known yet whether it lives, which shows within kGoneAfter. An applicant without a decision
/// keeps its position in the line.
std::vector<Candidate> decidable(std::vector<Candidate> applicants);

/// The members of the next group: those of `old` that are here, by rank, and then the decidable
/// applicants, as far as they live. None while a process has to be waited for: a member lives until
/// it has ended or is silent for kGoneAfter, and is waited for until `waited` is `patience`, since
/// it may be busy with a micro-batch. Applicants are waited for until all are decidable if no
/// member is gone, since then the group is rebuilt for them.
///
/// A pure function: all processes with the same view decide alike.
std::optional<std::vector<Member>> next_members(const std::vector<Candidate>& old,
                                                const std::vector<Candidate>& applicants,
                                                std::chrono::milliseconds waited,
                                                std::chrono::milliseconds patience);

}  // namespace accrue::distributed
