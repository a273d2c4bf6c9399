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

/// Parses `memory.budget` and returns bytes: nothing for "none", the size for "6GiB"; for "auto"
/// the free memory of the cgroup or system plus what is held (auto_budget): resident in the
/// process, or reserved for tensors if the budget covers only tensors. Throws a usage Error for
/// other text, 0 bytes, or more than the counted device has.
std::optional<std::int64_t> resolve_budget(std::string_view text);

/// The sum of `held` and `available`, less a reserve for the kernel and other programs: a
/// thirty-second of the sum, at least 32 MiB. Never negative.
std::int64_t auto_budget(std::int64_t held, std::int64_t available);

/// The bytes of this process that count against a budget: resident, or reserved for tensors.
std::int64_t held_of_a_budget();

/// The part of a budget of the whole process that is kept free for growth outside tensors until the
/// next measurement, and for page tables: 24 MiB and a sixty-fourth of the budget (measurements:
/// docs/notes/resident_budget.md).
std::int64_t reserve_outside(std::int64_t budget);

/// The smallest budget of the whole process that leaves `tensors` bytes for tensors when `outside`
/// bytes are held outside tensors.
std::int64_t budget_that_leaves(std::int64_t tensors, std::int64_t outside);

/// If a budget of the whole process is set (BudgetOf::process), measures the resident memory
/// outside tensors (code, libraries, stacks, the heap), and takes it and reserve_outside() off the
/// budget for tensors. Call it when that memory may have changed. It costs about a millisecond per
/// GiB. Returns a message for people if the result differs from the previous one by an eighth of
/// the budget or more, and otherwise nothing.
std::optional<std::string> measure_outside();

/// Does the same during a run, whose plan depends on the budget for tensors: it changes nothing
/// while at least half and at most all of the reserve is left.
std::optional<std::string> follow_outside();

/// The new budget and the reason for the change.
struct BudgetChange {
  std::optional<std::int64_t> budget;
  std::string reason;
};

/// Returns the smallest budget with which a run can continue. Called when a signal arrives.
using LeastBudget = std::function<std::int64_t()>;

/// Watches for changes of the budget during a run: by `memory.budget_file`, whose content has the
/// form of `memory.budget`, and by SIGUSR1, which schedulers also send as a notice and which lowers
/// the budget by a tenth, but not below what the run needs. SIGUSR1 does not end the process during
/// the object's lifetime. Signals are process-wide, so poll only one object at a time. An object
/// constructed earlier keeps the signals that arrive in between for it.
class BudgetWatch {
 public:
  /// `file` may be empty (signals only) and need not exist yet. It is read from the first poll on.
  explicit BudgetWatch(std::filesystem::path file);
  ~BudgetWatch();
  BudgetWatch(const BudgetWatch&) = delete;
  BudgetWatch& operator=(const BudgetWatch&) = delete;

  /// Sets the smallest budget that a signal may leave; 0 at first.
  void leave_at_least(LeastBudget least) { least_ = std::move(least); }

  /// Call between micro-batches; costs one stat() if nothing changed. `budget` is the current
  /// budget. Without one, a signal takes a tenth of `held`. A signal that can take nothing is
  /// reported as well.
  ///
  /// A file that cannot be read or parsed, or is gone, changes nothing: the current budget is
  /// returned once with the reason. An empty file is treated as one that is still being written.
  std::optional<BudgetChange> poll(std::optional<std::int64_t> budget, std::int64_t held);
  /// Does the same for the file alone; signals stay pending.
  std::optional<BudgetChange> poll_file(std::optional<std::int64_t> budget);

 private:
  /// The stat() result that identifies a version of the file.
  struct Version {
    std::uint64_t inode = 0;
    std::int64_t size = 0, modified_ns = 0;
    bool operator==(const Version&) const = default;
  };
  static std::optional<Version> version_of(const std::filesystem::path& file);

  std::optional<BudgetChange> hear(std::optional<std::int64_t> budget);

  std::filesystem::path file_;
  std::optional<Version> seen_;
  bool settled_ = false;  ///< no later write can have the time stamp of `seen_`
  std::string heard_;     ///< content of `seen_`, or the error of reading it
  struct sigaction previous_action_ {};
  LeastBudget least_ = [] { return std::int64_t{0}; };
};

/// Sets the budget that `watch` reports, and then measures the memory outside tensors. Returns the
/// reason of the change, or nothing if nothing changed or the caching allocator is not installed.
std::optional<std::string> follow_budget(BudgetWatch& watch);
/// Does the same for the file alone: before there is a plan, the least budget is unknown.
std::optional<std::string> follow_budget_file(BudgetWatch& watch);

}  // namespace accrue::memory
