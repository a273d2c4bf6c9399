#include "distributed/group/members.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/whole_number.h"

namespace accrue::distributed {
namespace {

bool is_gone(const Candidate& candidate) {
  return candidate.has_ended || candidate.silence >= kGoneAfter;
}

}  // namespace

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
