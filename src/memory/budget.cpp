#include "accrue/memory/budget.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "accrue/core/clock.h"
#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "accrue/memory/caching_allocator.h"
#include "accrue/memory/offload.h"
#include "accrue/memory/shard_scope.h"
#include "core/atomic_file.h"
#include "core/signal_handling.h"

namespace accrue::memory {
namespace {

// A signal handler can only access a static, and only without a lock.
std::atomic<int> signals_arrived{0};
static_assert(std::atomic<int>::is_always_lock_free);

void note_signal(int) { ++signals_arrived; }

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
/// The memory kept free for growth outside tensors: kLeastOutside, and the kShareOutside-th part of
/// the budget.
constexpr std::int64_t kLeastOutside = 24 * kMebibyte, kShareOutside = 64;

std::string describe(std::optional<std::int64_t> budget) {
  return budget ? "a budget of " + format_bytes(*budget) : "no budget";
}

BudgetChange changed(std::optional<std::int64_t> from, std::optional<std::int64_t> to,
                     const std::string& cause) {
  return {to, cause + ": " + describe(to) + ", after " + describe(from)};
}

BudgetChange kept(std::optional<std::int64_t> budget, const std::string& cause) {
  return {budget, cause + "; it stays at " + describe(budget)};
}

std::string without_space_around(const std::string& text) {
  constexpr const char* kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

}  // namespace

std::int64_t auto_budget(std::int64_t held, std::int64_t available) {
  constexpr std::int64_t kLeastReserve = 32 * kMebibyte, kShareOfReserve = 32;
  const std::int64_t all = held + available;
  return std::max<std::int64_t>(0, all - std::max(kLeastReserve, all / kShareOfReserve));
}

std::optional<std::int64_t> resolve_budget(std::string_view text) {
  if (text == "none") return std::nullopt;
  if (text == "auto") return auto_budget(held_of_a_budget(), available_bytes());
  const std::int64_t bytes = parse_bytes(text, "memory.budget").count;
  if (const auto room = device_room(); room && bytes > room->all)
    throw usage_error("memory.budget", "at most the device's " + format_bytes(room->all),
                      format_bytes(bytes), "\"auto\", which is what it has free");
  if (bytes == 0)
    throw usage_error("memory.budget", "more than 0 bytes", "\"" + std::string(text) + "\"",
                      "none, auto, or a size such as \"6GiB\"");
  return bytes;
}

std::int64_t held_of_a_budget() {
  return budget_of() == BudgetOf::process ? resident_bytes() : usage().reserved;
}

std::int64_t reserve_outside(std::int64_t budget) { return kLeastOutside + budget / kShareOutside; }

std::int64_t budget_that_leaves(std::int64_t tensors, std::int64_t outside) {
  const std::int64_t all_but_the_share = tensors + outside + kLeastOutside;
  return all_but_the_share + (all_but_the_share + kShareOutside - 2) / (kShareOutside - 1);
}

namespace {

/// The most of a divided model that was in memory at once, less the part that is now.
std::int64_t shard_growth() {
  const ShardUsage usage = shard_usage();
  return usage.most_in_memory - usage.in_memory;
}

/// `kept`: the previous value may stay, if at least half of its reserve is left and it is not
/// larger than needed.
std::optional<std::string> leave_what_lies_outside(bool kept) {
  const std::optional<std::int64_t> stated = budget();
  if (!stated || budget_of() != BudgetOf::process) return std::nullopt;
  leave_memory();  // what of offloaded state is here at this moment says little
  const std::int64_t outside = std::max<std::int64_t>(0, resident_bytes() - resident_in_tensors()) +
                               offload_usage().most_in_memory + shard_growth();
  const std::int64_t reserve = reserve_outside(*stated);
  const std::int64_t before = left_outside(), now = outside + reserve;
  if (kept && before >= now - reserve / 2 && before <= now) return std::nullopt;
  leave_outside(now);
  constexpr std::int64_t kShareTold = 8;
  if (std::abs(now - before) < *stated / kShareTold) return std::nullopt;
  return "outside tensors the program holds " + format_bytes(outside) + ": of the budget of " +
         format_bytes(*stated) + " " + format_bytes(tensor_budget().value_or(0)) +
         " are left to tensors, after " + format_bytes(std::max<std::int64_t>(0, *stated - before));
}

}  // namespace

std::optional<std::string> measure_outside() { return leave_what_lies_outside(false); }

std::optional<std::string> follow_outside() { return leave_what_lies_outside(true); }

BudgetWatch::BudgetWatch(std::filesystem::path file) : file_(std::move(file)) {
  sigaction(SIGUSR1, nullptr, &previous_action_);
  if (previous_action_.sa_handler != note_signal) signals_arrived = 0;
  handle_signal(SIGUSR1, note_signal, SA_RESTART);
}

BudgetWatch::~BudgetWatch() { sigaction(SIGUSR1, &previous_action_, nullptr); }

std::optional<BudgetChange> BudgetWatch::poll(std::optional<std::int64_t> budget,
                                              std::int64_t held) {
  if (auto change = poll_file(budget)) return change;
  const int signals = signals_arrived.exchange(0);
  if (signals == 0) return std::nullopt;
  const std::int64_t from = budget.value_or(held), needed = least_();
  if (from <= needed)
    return kept(budget, "SIGUSR1 takes nothing, as the run needs " + format_bytes(needed));
  constexpr double kLeftBySignal = 0.9;
  const auto to =
      static_cast<std::int64_t>(static_cast<double>(from) * std::pow(kLeftBySignal, signals));
  const std::string cause = "SIGUSR1 takes a tenth" +
                            std::string(budget ? "" : " of what is held") +
                            (signals > 1 ? ", " + std::to_string(signals) + " times" : "");
  if (to >= needed) return changed(budget, to, cause);
  return changed(budget, needed, cause + ", but nothing of what the run needs");
}

std::optional<BudgetChange> BudgetWatch::poll_file(std::optional<std::int64_t> budget) {
  if (file_.empty()) return std::nullopt;
  const std::optional<Version> version = version_of(file_);
  if (version == seen_ && settled_) return std::nullopt;
  if (version != seen_) heard_.clear();
  const bool was_there = std::exchange(seen_, version).has_value();
  if (!version) {
    settled_ = true;
    if (!was_there) return std::nullopt;
    return kept(budget, "memory.budget_file " + file_.string() + " is gone");
  }
  // Within the resolution of time stamps a second write may look like the first.
  constexpr double kResolutionSeconds = 2;
  settled_ = unix_time() - static_cast<double>(version->modified_ns) * 1e-9 > kResolutionSeconds;
  return hear(budget);
}

std::optional<BudgetChange> BudgetWatch::hear(std::optional<std::int64_t> budget) {
  const std::string name = "memory.budget_file " + file_.string();
  try {
    const std::string text = without_space_around(read_file(file_));
    if (text.empty() || text == heard_) return std::nullopt;
    const std::optional<std::int64_t> stated = resolve_budget(text);
    heard_ = text;
    return changed(budget, stated, name + " says \"" + text + "\"");
  } catch (const std::exception& error) {
    if (heard_ == error.what()) return std::nullopt;
    heard_ = error.what();
    return kept(budget, name + " says nothing known: " + error.what());
  }
}

std::optional<BudgetWatch::Version> BudgetWatch::version_of(const std::filesystem::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return std::nullopt;
  constexpr std::int64_t kNanosecondsPerSecond = 1'000'000'000;
  return Version{
      .inode = status.st_ino,
      .size = status.st_size,
      .modified_ns = status.st_mtim.tv_sec * kNanosecondsPerSecond + status.st_mtim.tv_nsec};
}

namespace {

std::optional<std::string> apply_change(const std::optional<BudgetChange>& change) {
  if (!change) return std::nullopt;
  set_budget(change->budget);
  measure_outside();
  return change->reason;
}

}  // namespace

std::optional<std::string> follow_budget(BudgetWatch& watch) {
  if (!caching_allocator_installed()) return std::nullopt;
  return apply_change(watch.poll(budget(), held_of_a_budget()));
}

std::optional<std::string> follow_budget_file(BudgetWatch& watch) {
  if (!caching_allocator_installed()) return std::nullopt;
  return apply_change(watch.poll_file(budget()));
}

}  // namespace accrue::memory
