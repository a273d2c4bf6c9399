#include "distributed/group/members.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace accrue::distributed {
namespace {

bool is_gone(const Candidate& candidate) { return candidate.silence >= kGoneAfter; }

}  // namespace

std::string beat_key(Member member) { return "beat/" + std::to_string(member); }

std::string to_text(const MemberList& list) {
  return nlohmann::json{{"generation", list.generation},
                        {"members", list.members},
                        {"applications", list.applications}}
      .dump();
}

std::optional<MemberList> member_list(const std::string& text) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    MemberList list{.generation = json.at("generation").get<std::int64_t>(),
                    .members = json.at("members").get<std::vector<Member>>(),
                    .applications = json.at("applications").get<std::int64_t>()};
    const std::set<Member> once(list.members.begin(), list.members.end());
    const bool is_sound = list.generation >= 0 && list.applications >= 0 && !once.empty() &&
                          *once.begin() >= 0 && once.size() == list.members.size();
    return is_sound ? std::optional(list) : std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

std::optional<int> rank_of(Member member, const MemberList& list) {
  const auto at = std::ranges::find(list.members, member);
  if (at == list.members.end()) return std::nullopt;
  return static_cast<int>(at - list.members.begin());
}

std::optional<std::vector<Member>> next_members(const std::vector<Candidate>& old,
                                                const std::vector<Candidate>& applicants,
                                                std::chrono::milliseconds waited,
                                                std::chrono::milliseconds patience) {
  std::vector<Member> members;
  for (const Candidate& candidate : old) {
    if (is_gone(candidate)) continue;
    if (candidate.is_here)
      members.push_back(candidate.member);
    else if (waited < patience)
      return std::nullopt;
  }
  for (const Candidate& candidate : applicants) {
    if (is_gone(candidate)) continue;
    if (!candidate.is_alive) return std::nullopt;
    members.push_back(candidate.member);
  }
  return members;
}

}  // namespace accrue::distributed
