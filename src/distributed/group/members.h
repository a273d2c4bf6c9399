#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace accrue::distributed {

/// A process that takes part in a run, or asks to, for as long as it lives: the ranks of the first
/// group have their numbers, and those that joined later have the next ones. Ranks are places in a
/// group.
using Member = std::int64_t;

/// The key of a member's signs of life among the texts of a run.
std::string beat_key(Member member);
/// The key of the word that a member's lifeline ended.
std::string death_key(Member member);

/// The group of a generation: the first is 0, and each change makes another.
struct MemberList {
  std::int64_t generation = 0;
  std::vector<Member> members;    ///< by rank, without two of a kind
  std::int64_t applications = 0;  ///< how many of those who asked to join were decided on

  bool operator==(const MemberList&) const = default;
};

std::string to_text(const MemberList& list);
/// Reads back what to_text() wrote; none if that is something else.
std::optional<MemberList> member_list(const std::string& text);

/// The rank of `member` in a list; none if it is not in it.
std::optional<int> rank_of(Member member, const MemberList& list);

/// A process that is silent for this long is gone: two signs of life and the time for them to
/// arrive.
inline constexpr std::chrono::milliseconds kGoneAfter{1200};

/// What is known of a process while members are decided on.
struct Candidate {
  Member member = 0;
  bool is_here = false;                 ///< it asks for the next group
  std::chrono::milliseconds silence{};  ///< since its last sign of life, or since it is watched
  bool is_alive = false;                ///< it gave a sign of life since it is watched
  bool has_ended = false;               ///< its process did, as the one told that watched it

  bool is_gone() const { return has_ended || silence >= kGoneAfter; }
};

/// Those of the applicants, who stand in line, whom a decision can be about: from the first up to
/// one of which it is not known yet whether it lives, as shows within kGoneAfter. Who is not
/// decided on keeps its place in the line.
std::vector<Candidate> decidable(std::vector<Candidate> applicants);

/// Who is in the next group: those of `old` that are here, by rank, and then the decidable
/// applicants, all as far as they live. None as long as there is somebody to wait for: a member
/// lives until it has ended or is silent for kGoneAfter, and is waited for until `waited` is
/// `patience`, since it may be busy with a micro-batch. Applicants are waited for until all are
/// decidable if no member is gone, since then it is for them that the group is made anew.
///
/// It is pure: all who see the same decide alike.
std::optional<std::vector<Member>> next_members(const std::vector<Candidate>& old,
                                                const std::vector<Candidate>& applicants,
                                                std::chrono::milliseconds waited,
                                                std::chrono::milliseconds patience);

}  // namespace accrue::distributed
