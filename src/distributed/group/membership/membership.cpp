#include "distributed/group/membership/membership.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "distributed/group/store/text_seal.h"

namespace accrue::distributed {
namespace {

using std::chrono::milliseconds;

constexpr const char* kMet = "all met";
/// Numbers of members that applied start here; no rank of a first group has them.
constexpr Member kFirstApplicant = Member{1} << 32;

/// Between two answers of a store that works, there is less. An engine of several machines that
/// lost one of them is silent for longer, to all ranks.
constexpr milliseconds kOutage{1000};
/// How long a sign of life may take once the store answers again: its writer's request ends first.
constexpr milliseconds kAfterOutage{2000};

/// A member that a process asking to join has not heard for this long is gone: a group that is
/// being rebuilt is silent for less.
constexpr milliseconds kNobodyAfter{10'000};

std::string folder_of(std::int64_t generation) { return "group/" + std::to_string(generation); }
std::string list_key(std::int64_t generation) { return folder_of(generation) + "/members"; }
/// Differs from the keys under which ranks meet (kAnnouncement): members have other numbers than
/// ranks.
std::string presence_key(std::int64_t generation, Member member) {
  return folder_of(generation) + "/present/" + std::to_string(member);
}
std::string application_key(std::int64_t number) { return "application/" + std::to_string(number); }

MemberList first_group(int world) {
  MemberList list{.members = std::vector<Member>(static_cast<std::size_t>(world))};
  std::iota(list.members.begin(), list.members.end(), 0);
  return list;
}

}  // namespace

Membership::Membership(SealedTexts texts, SealedTexts line, Member own, int world)
    : texts_(std::move(texts)),
      line_(std::move(line)),
      own_(own),
      list_(first_group(world)),
      settled_(list_.members) {}

Membership::Membership(SealedTexts texts, SealedTexts line, int world)
    : Membership(std::move(texts), std::move(line), kNobody, world) {}

bool Membership::have_met(const SealedTexts& texts) { return texts.read(kMet).text.has_value(); }

void Membership::announce_all_met(const SealedTexts& texts) { texts.write(kMet, "1"); }

bool Membership::has_live_member() {
  const std::scoped_lock lock(mutex_);
  while (take_next()) continue;
  return std::ranges::any_of(old_members(), &Candidate::is_alive);
}

void Membership::apply() {
  const std::string name = random_name();
  do ++application_;
  while (texts_.decide(application_key(application_), name) != name);
  own_ = kFirstApplicant + application_ - 1;
}

/// The store is asked without the lock: no thread has to wait for a host that does not answer.
bool Membership::has_applicants() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  const std::int64_t before = list_.applications;
  lock.unlock();
  const std::vector<Applicant> asking = read_line(line_, before + 1, kMostAsked);
  if (!lock.try_lock() || list_.applications != before) return false;
  return !std::ranges::all_of(decidable(observe(asking)), &Candidate::is_gone);
}

std::optional<MemberList> Membership::decided() const {
  const Reading reading = texts_.read(list_key(list_.generation + 1));
  if (!reading.text) return std::nullopt;
  auto list = member_list(*reading.text);
  if (!list || list->generation != list_.generation + 1)
    throw std::runtime_error("a list of members that no rank of this version writes");
  return list;
}

void Membership::take(MemberList next) {
  list_ = std::move(next);
  began_.reset();
  seen_.clear();
  looked_.reset();
}

void Membership::settle() {
  const std::scoped_lock lock(mutex_);
  settled_ = list_.members;
}

/// Silence does not count for the time in which the store did not answer, or this process was
/// stopped.
void Membership::leave_out_outage() {
  const Deadline now = std::chrono::steady_clock::now();
  if (looked_ && now - *looked_ > kOutage)
    for (auto& [member, seen] : seen_) seen.since = now + kAfterOutage;
  looked_ = now;
}

Candidate Membership::observe(Member member, std::optional<std::string> beat) {
  leave_out_outage();
  const auto now = std::chrono::steady_clock::now();
  const auto [at, is_new] = seen_.try_emplace(member, Seen{beat, now});
  Seen& seen = at->second;
  if (!is_new && beat != seen.beat) seen = {std::move(beat), now, true};
  return {.member = member,
          .silence = std::chrono::duration_cast<milliseconds>(now - seen.since),
          .is_alive = seen.is_alive};
}

std::vector<Candidate> Membership::old_members() {
  std::vector<Candidate> candidates;
  for (const Member member : list_.members) {
    if (std::ranges::find(settled_, member) == settled_.end()) continue;
    Candidate& candidate =
        candidates.emplace_back(observe(member, texts_.read(beat_key(member)).text));
    candidate.is_here = texts_.read(presence_key(list_.generation + 1, member)).text.has_value();
    // Only members are watched; an applicant that ended is recognized by its silence.
    candidate.has_ended = texts_.read(death_key(member)).text.has_value();
  }
  return candidates;
}

/// `most` of the applicants in line, from the `first` application on.
std::vector<Membership::Applicant> Membership::read_line(const SealedTexts& texts,
                                                         std::int64_t first, std::int64_t most) {
  std::vector<Applicant> line;
  for (std::int64_t number = first;
       number - first < most && texts.read(application_key(number)).text.has_value(); ++number) {
    const Member member = kFirstApplicant + number - 1;
    line.push_back({member, texts.read(beat_key(member)).text});
  }
  return line;
}

std::vector<Candidate> Membership::observe(const std::vector<Applicant>& applicants) {
  std::vector<Candidate> candidates;
  for (const auto& [member, beat] : applicants) candidates.push_back(observe(member, beat));
  return candidates;
}

std::vector<Candidate> Membership::applicants() {
  constexpr std::int64_t all = std::numeric_limits<std::int64_t>::max();
  return observe(read_line(texts_, list_.applications + 1, all));
}

/// Takes the list that was decided after this one; false if there is none. None is skipped.
bool Membership::take_next() {
  auto next = decided();
  if (!next) return false;
  settled_ = list_.members;
  take(*std::move(next));
  return true;
}

Membership::Status Membership::poll_admission() {
  while (take_next()) {
    if (rank_of(own_, list_)) return {.is_decided = true};
    if (list_.applications < application_) continue;
    apply();
    return {.has_reapplied = true};
  }
  const std::vector<Candidate> others = old_members();
  return {.is_left_alone = std::ranges::all_of(
              others, [](const Candidate& other) { return other.silence >= kNobodyAfter; })};
}

Membership::Status Membership::poll_members(std::int64_t least, milliseconds patience) {
  const std::int64_t generation = list_.generation + 1;
  if (!began_) {
    texts_.write(presence_key(generation, own_), "1");
    began_ = std::chrono::steady_clock::now();
  }
  if (auto next = decided()) {
    take(*std::move(next));
    return {.is_decided = true};
  }
  const auto waited =
      std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - *began_);
  const std::vector<Candidate> applying = applicants();
  auto members = next_members(old_members(), applying, waited, patience);
  if (!members) return {};
  if (members->empty()) return {.is_left_alone = true};
  if (std::ssize(*members) < least)
    return {.present = std::ssize(*members), .is_first = members->front() == own_};
  const MemberList proposed{.generation = generation,
                            .members = *std::move(members),
                            .applications = list_.applications + std::ssize(decidable(applying))};
  texts_.decide(list_key(generation), to_text(proposed));
  take(decided().value());
  return {.is_decided = true};
}

Membership::Status Membership::poll(std::int64_t least, milliseconds patience) {
  const std::scoped_lock lock(mutex_);
  return rank_of(own_, list_) ? poll_members(least, patience) : poll_admission();
}

}  // namespace accrue::distributed
