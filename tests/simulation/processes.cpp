#include "simulation/processes.h"

#include <algorithm>
#include <limits>

namespace accrue::simulation {
namespace {

using distributed::Member;

/// The number of the first member that applied (distributed::Membership).
constexpr Member kFirstApplicant = Member{1} << 32;

}  // namespace

Processes::Processes(int machines, const Fates& fates, std::uint64_t seed)
    : fates_(fates), random_(seed), of_machine_(static_cast<std::size_t>(machines)) {
  for (int machine = 0; machine < machines; ++machine) {
    begin_process(machine);
    index_[machine] = of_machine_[static_cast<std::size_t>(machine)];
  }
  if (fates_.kill_every > 0) events_.push({fates_.kill_every, Kind::kill});
}

Seconds Processes::draw(Seconds mean) {
  return std::exponential_distribution<Seconds>(1 / mean)(random_);
}

void Processes::plan_after(Seconds mean, Kind kind, std::size_t process) {
  if (mean > 0) events_.push({now_ + draw(mean), kind, process});
}

void Processes::begin_process(int machine) {
  const std::size_t process = all_.size();
  all_.push_back({.machine = machine});
  of_machine_[static_cast<std::size_t>(machine)] = process;
  starts_.push_back(now_);
  plan_after(fates_.lifetime, Kind::death, process);
  plan_after(fates_.freezes_after, Kind::freeze, process);
}

Seconds Processes::next_event() const {
  return events_.empty() ? std::numeric_limits<Seconds>::infinity() : events_.top().at;
}

void Processes::advance(Seconds until) {
  while (next_event() <= until) {
    const Event event = events_.top();
    events_.pop();
    now_ = std::max(now_, event.at);
    happen(event);
  }
  now_ = std::max(now_, until);
}

void Processes::happen(const Event& event) {
  switch (event.kind) {
    case Kind::death:
      end(event.process);
      break;
    case Kind::kill:
      end(of_machine_[std::uniform_int_distribution<std::size_t>(0,
                                                                 of_machine_.size() - 1)(random_)]);
      events_.push({now_ + fates_.kill_every, Kind::kill});
      break;
    case Kind::freeze:
      if (all_[event.process].ended) break;
      all_[event.process].frozen_until = now_ + draw(fates_.frozen_for);
      events_.push({all_[event.process].frozen_until, Kind::wake, event.process});
      break;
    case Kind::wake:
      if (!all_[event.process].ended) plan_after(fates_.freezes_after, Kind::freeze, event.process);
      break;
    case Kind::start: {
      begin_process(all_[event.process].machine);
      events_.push({now_ + fates_.start, Kind::application, all_.size() - 1});
      break;
    }
    case Kind::application:
      if (!all_[event.process].ended) apply(event.process);
      break;
  }
}

void Processes::end(std::size_t process) {
  if (all_[process].ended) return;
  all_[process].ended = now_;
  ends_.push_back(now_);
  ++deaths_;
  events_.push({now_ + fates_.away, Kind::start, process});
}

void Processes::end(Member member) { end(index_.at(member)); }

void Processes::apply(std::size_t process) {
  applications_.push_back(kFirstApplicant + static_cast<Member>(applications_.size()));
  index_[applications_.back()] = process;
  all_[process].applied = now_;
}

void Processes::apply_again(Member member) { apply(index_.at(member)); }

std::vector<Member> Processes::applicants_after(std::int64_t applications) const {
  return {applications_.begin() + applications, applications_.end()};
}

Seconds Processes::lived(Seconds from, Seconds to) const {
  Seconds sum = 0;
  for (const Seconds start : starts_) sum += std::max(0.0, to - std::max(from, start));
  for (const Seconds end : ends_) sum -= std::max(0.0, to - std::max(from, end));
  return sum;
}

}  // namespace accrue::simulation
