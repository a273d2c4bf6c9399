#include "distributed/group/membership/members.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/whole_number.h"

namespace accrue::distributed {

std::string beat_key(Member member) { return "beat/" + std::to_string(member); }
std::string death_key(Member member) { return "ended/" + std::to_string(member); }

std::string to_text(const MemberList& list) {
  return nlohmann::json{{"generation", list.generation},
                        {"members", list.members},
                        {"applications", list.applications}}
      .dump();
}

std::optional<MemberList> member_list(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("members") || !json["members"].is_array())
    return std::nullopt;
  const auto generation = whole_number(json.value("generation", nlohmann::json())),
             applications = whole_number(json.value("applications", nlohmann::json()));
  if (!generation || *generation < 0 || !applications || *applications < 0) return std::nullopt;
  MemberList list{.generation = *generation, .members = {}, .applications = *applications};
  std::set<Member> once;
  for (const nlohmann::json& value : json["members"]) {
    const auto member = whole_number(value);
    if (!member || *member < 0 || !once.insert(*member).second) return std::nullopt;
    list.members.push_back(*member);
  }
  return list.members.empty() ? std::nullopt : std::optional(std::move(list));
}

std::optional<int> rank_of(Member member, const MemberList& list) {
  const auto at = std::ranges::find(list.members, member);
  if (at == list.members.end()) return std::nullopt;
  return static_cast<int>(at - list.members.begin());
}

std::vector<Candidate> decidable(std::vector<Candidate> applicants) {
  const auto unknown = std::ranges::find_if(applicants, [](const Candidate& candidate) {
    return !candidate.is_alive && !candidate.is_gone();
  });
  applicants.erase(unknown, applicants.end());
  return applicants;
}

std::optional<std::vector<Member>> next_members(const std::vector<Candidate>& old,
                                                const std::vector<Candidate>& applicants,
                                                std::chrono::milliseconds waited,
                                                std::chrono::milliseconds patience) {
  std::vector<Member> members;
  for (const Candidate& candidate : old) {
    if (candidate.is_gone()) continue;
    if (candidate.is_here)
      members.push_back(candidate.member);
    else if (waited < patience)
      return std::nullopt;
  }
  const std::vector<Candidate> asking = decidable(applicants);
  const bool is_for_them = std::ranges::none_of(old, &Candidate::is_gone);
  if (is_for_them && asking.size() < applicants.size()) return std::nullopt;
  for (const Candidate& candidate : asking)
    if (!candidate.is_gone()) members.push_back(candidate.member);
  return members;
}

}  // namespace accrue::distributed
