#include "renewal_scenarios.h"

#include <ATen/ATen.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "accrue/core/error.h"
#include "support/at_span.h"
#include "support/run_program.h"

namespace accrue::distributed {
namespace {

using namespace std::chrono_literals;

std::shared_ptr<Group> group_of(const Launch& launch, std::int64_t least = 1) {
  std::shared_ptr<Group> group = connect(launch, {.timeout = 20s, .least = least});
  if (!group->comes_late()) group->settle();
  return group;
}

bool wait_on(std::int64_t, bool) { return true; }

/// Adds up the present ranks until one is gone; prints each sum, and the ranks that the members of
/// a group had before it.
void tell(const std::string& name, Group& group) {
  at::Tensor ones = at::ones({1}, at::kLong);
  group.start_sum(ones, "a sum")->wait();
  print(name, at::tensor({group.rank(), ones.item<std::int64_t>()}, at::kLong));
}

void tell(const FormerRanks& former) {
  std::cout << "former";
  for (const auto& rank : former) std::cout << ' ' << rank.value_or(-1);
  std::cout << '\n';
}

/// words: the ranks that die, one after the other, each in the group that is left then.
void dying(const Launch& launch, const Words& words) {
  const std::shared_ptr<Group> group = group_of(launch);
  tell("first", *group);
  for (const std::string& word : words) {
    if (launch.rank == std::stoi(word)) std::raise(SIGKILL);
    try {
      group->barrier("where one dies");
      throw std::logic_error("nobody died");
    } catch (const RanksGone& gone) {
      std::cout << "lost " << gone.received() << '\n';
    }
    tell(group->renew(wait_on));
    tell("renewed", *group);
  }
}

/// words: the ranks that die, each in the group that is left then, while no collective is in
/// progress; the others learn of it.
void hearing(const Launch& launch, const Words& words) {
  std::atomic<bool> is_watching = false;
  const accrue::testing::AtSpan greeted("ranks: greeted", [&] { is_watching = true; });
  const std::shared_ptr<Group> group = group_of(launch);
  tell("first", *group);
  for (const std::string& word : words) {
    accrue::testing::wait_until([&] { return is_watching.exchange(false); });
    group->barrier("each watches another");
    std::cout << "before " << group->has_lost_one() << '\n';
    if (launch.rank == std::stoi(word)) std::raise(SIGKILL);
    accrue::testing::wait_until([&] { return group->has_lost_one(); });
    try {
      group->barrier("what nobody enters");
    } catch (const RanksGone& gone) {
      std::cout << "lost " << gone.received() << '\n';
    }
    tell(group->renew(wait_on));
    tell("renewed", *group);
    group->settle();
  }
}

void meet_where_one_hangs(Group& group) {
  try {
    group.barrier("where one hangs");
  } catch (const RanksGone&) {
    tell(group.renew(wait_on));
  }
}

/// Rank 1 hangs for longer than the others wait, and then finds that they continued. Rank 0 hosts
/// the store that records it: it stays until rank 1 has read it.
void hanging(const Launch& launch, const Words&) {
  const std::shared_ptr<Group> group = connect(launch, {.timeout = 3s, .least = 1});
  group->settle();
  tell("first", *group);
  if (launch.rank == 1) {
    accrue::testing::wait_until([] { return std::filesystem::exists("../rank0/went_on"); });
    try {
      meet_where_one_hangs(*group);
    } catch (const std::exception&) {
      std::ofstream("left").put('1');
      throw;
    }
    return;
  }
  meet_where_one_hangs(*group);
  tell("renewed", *group);
  if (launch.rank == 0) {
    std::ofstream("went_on").put('1');
    accrue::testing::wait_until([] { return std::filesystem::exists("../rank1/left"); });
  }
  group->barrier("the end");
}

/// With a word: comes when the others have met, and joins them.
void joining(const Launch& launch, const Words& words) {
  const bool is_late = !words.empty();
  if (is_late) accrue::testing::wait_until([] { return std::filesystem::exists("../rank0/met"); });
  const std::shared_ptr<Group> group = group_of(launch);
  if (!is_late) {
    tell("first", *group);
    if (launch.rank == 0) std::ofstream("met").put('1');
    accrue::testing::wait_until([&] { return launch.rank != 0 || group->has_applicants(); });
  }
  std::cout << "late " << group->comes_late() << '\n';
  tell(group->renew(wait_on));
  tell("renewed", *group);
  group->barrier("the end");
}

/// All die but rank 0, which needs another: it waits, and gives up when it was asked three times.
void waiting(const Launch& launch, const Words&) {
  const std::shared_ptr<Group> group = group_of(launch, 2);
  tell("first", *group);
  if (launch.rank > 0) std::raise(SIGKILL);
  try {
    group->barrier("where all die");
  } catch (const RanksGone&) {
    int asked = 0;
    group->renew([&](std::int64_t ranks, bool is_first) {
      std::cout << "asked " << ranks << ' ' << is_first << '\n';
      return ++asked < 3;
    });
  }
}

}  // namespace

const std::map<std::string, Scenario>& renewal_scenarios() {
  static const std::map<std::string, Scenario> table{{"dying", dying},
                                                     {"hearing", hearing},
                                                     {"hanging", hanging},
                                                     {"joining", joining},
                                                     {"waiting", waiting}};
  return table;
}

}  // namespace accrue::distributed
