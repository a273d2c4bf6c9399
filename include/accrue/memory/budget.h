#pragma once

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace accrue::memory {

/// The bytes that `memory.budget` allows: "none" is none, "6GiB" is that much, "auto" what the
/// cgroup's limit, or the system, still has beside what is held already (auto_budget): resident by
/// the process, or reserved for tensors if the budget is for them alone. Throws a usage Error
/// if the text is none of these, or 0 bytes.
std::optional<std::int64_t> resolve_budget(std::string_view text);

/// All that is `held` or `available`, less a reserve for what the kernel keeps of it and for other
/// programs: a thirty-second of it, at least 32 MiB. At least 0.
std::int64_t auto_budget(std::int64_t held, std::int64_t available);

/// What a budget counts of this process now: what is resident, or what tensors reserve.
std::int64_t held_of_a_budget();

/// What is kept free of a budget of the whole process for what grows outside tensors until it is
/// measured again, and for page tables: 24 MiB and a sixty-fourth of the budget
/// (docs/notes/resident_budget.md has the measurements).
std::int64_t reserve_outside(std::int64_t budget);

/// The least budget of the whole process that leaves `tensors` bytes to tensors where `outside` lie
/// beside them.
std::int64_t budget_that_leaves(std::int64_t tensors, std::int64_t outside);

/// Where a budget of the whole process holds (BudgetOf::process): measures what is resident and
/// lies outside tensors (code, libraries, stacks, the heap), and leaves it and reserve_outside()
/// out of what tensors may take. To be asked whenever that may have changed: it costs about a
/// millisecond a GiB. Returns what it found, for people, where that is much more or less than was
/// left before.
std::optional<std::string> measure_outside();

/// Does what measure_outside() does, during a run, whose plan counts on what was left to tensors:
/// nothing changes while half of the reserve is left.
std::optional<std::string> follow_outside();

/// What the budget is from now on, and why.
struct BudgetChange {
  std::optional<std::int64_t> budget;
  std::string reason;
};

/// The least budget that a run goes on with; asked when a signal comes.
using LeastBudget = std::function<std::int64_t()>;

/// Watches for a change of the budget during a run: by `memory.budget_file`, whose content is what
/// `memory.budget` may be, and by SIGUSR1, which lowers the budget by a tenth, never below what the
/// run needs: schedulers send it as a notice, too. While it lives,
/// SIGUSR1 no longer ends the process. As signals are process-wide, one object is asked at a time;
/// one that was made before it keeps for it the signals that come in between.
class BudgetWatch {
 public:
  /// `file` may be empty (the signal only), need not exist yet, and counts from the first poll.
  explicit BudgetWatch(std::filesystem::path file);
  ~BudgetWatch();
  BudgetWatch(const BudgetWatch&) = delete;
  BudgetWatch& operator=(const BudgetWatch&) = delete;

  /// From here on a signal leaves `least`; at first anything.
  void leave_at_least(LeastBudget least) { least_ = std::move(least); }

  /// To be asked between micro-batches: one stat() while nothing changes. `budget` is the one that
  /// holds, `held` what a signal takes a tenth of where there is none. A signal that may take
  /// nothing is answered as well.
  ///
  /// A file that is not readable, says nothing known, or is gone changes nothing, and is answered
  /// once with the budget that holds and the reason. An empty file is one that is being written.
  std::optional<BudgetChange> poll(std::optional<std::int64_t> budget, std::int64_t held);
  /// The same for the file alone: signals wait.
  std::optional<BudgetChange> poll_file(std::optional<std::int64_t> budget);

 private:
  /// What stat() says of a version of the file.
  struct Version {
    std::uint64_t inode = 0;
    std::int64_t size = 0, modified_ns = 0;
    bool operator==(const Version&) const = default;
  };
  static std::optional<Version> version_of(const std::filesystem::path& file);

  std::optional<BudgetChange> hear(std::optional<std::int64_t> budget);

  std::filesystem::path file_;
  std::optional<Version> seen_;
  bool settled_ = false;  ///< no later write can hide behind the time stamp of `seen_`
  std::string heard_;     ///< what `seen_` said, or what was wrong with it
  struct sigaction previous_action_ {};
  LeastBudget least_ = [] { return std::int64_t{0}; };
};

/// Sets the budget that `watch` tells of, and then measures what lies outside tensors. Returns the
/// reason of the change; nothing if nothing changed, or no allocator holds a budget.
std::optional<std::string> follow_budget(BudgetWatch& watch);
/// The same for the file alone: before there is a plan nobody knows what a signal may leave.
std::optional<std::string> follow_budget_file(BudgetWatch& watch);

}  // namespace accrue::memory
