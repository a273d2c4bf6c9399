#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace accrue {

/// The progress of an operation that may take long, for the people who wait for it.
struct OperationProgress {
  enum class Stage { begun, under_way, ended };
  using InWords = std::string (*)(std::int64_t count);

  std::string name = {};  ///< "tokenizing"
  std::string part = {};  ///< the part of it that is under way, "trying 8 samples"; may be empty
  std::int64_t done = 0;  ///< of `all`
  std::int64_t all = 0;   ///< 0: nothing is counted
  InWords in_words = nullptr;  ///< makes a count readable; null: digits
  bool at_once = false;        ///< is shown as it begins, however soon it ends
  Stage stage = Stage::begun;
  const void* id = nullptr;  ///< of the operation: one may be under way within another
};

/// Shows progress to people; empty: it is not shown. It is called by one thread at a time, and
/// must not throw when an operation has ended.
using ShowProgress = std::function<void(const OperationProgress&)>;

/// Shows an operation from its construction to its destruction.
class LongOperation {
 public:
  LongOperation(ShowProgress show, OperationProgress operation);
  LongOperation(ShowProgress show, std::string name)
      : LongOperation(std::move(show), OperationProgress{.name = std::move(name)}) {}
  ~LongOperation();
  LongOperation(const LongOperation&) = delete;
  LongOperation& operator=(const LongOperation&) = delete;

  /// The operation goes on with this part.
  void begin_part(std::string part);
  /// So much of all is done.
  void count(std::int64_t done, std::int64_t all);

 private:
  void report(OperationProgress::Stage stage);

  ShowProgress show_;
  OperationProgress progress_;
};

/// Returns what `action` returns, and shows it as an operation meanwhile.
template <class Action>
decltype(auto) during(const ShowProgress& show, std::string name, const Action& action) {
  const LongOperation operation(show, std::move(name));
  return action();
}

/// Shows as an operation what reports counts alone: it begins with the first report, and ends when
/// all is done. Empty if `show` is.
std::function<void(std::int64_t done, std::int64_t all)> counted_operation(
    ShowProgress show, OperationProgress operation);

/// Shows as an operation each of the stages that are reported by name. One ends when the next
/// begins, the last with the function that is returned. All are shown as they begin.
std::function<void(const std::string& stage)> staged_operation(ShowProgress show);

}  // namespace accrue
