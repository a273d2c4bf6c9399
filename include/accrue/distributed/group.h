#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/accum/shared_sums.h"
#include "accrue/core/error.h"
#include "accrue/distributed/exchange.h"
#include "accrue/distributed/launch.h"

namespace accrue::distributed {

/// The transport for tensors on a GPU. Tensors in host memory always use Gloo.
enum class DeviceEngine {
  gloo,  ///< through host memory
  nccl,  ///< from GPU to GPU; each rank has its own GPU
};

/// Thrown if ranks are gone or do not arrive. Work in progress is lost, and later collectives fail,
/// until the remaining ranks form the group again (Group::renew).
class RanksGone : public Error {
 public:
  explicit RanksGone(const Error& error) : Error(error) {}
};

/// Writes a line to standard error.
void tell_on_standard_error(const std::string& line);

struct GroupOptions {
  /// The time that a rank waits for others: to connect, and in each collective. > 0. Whatever
  /// happened to them or to the store's host, it gives up at most five seconds later.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  DeviceEngine device_engine = DeviceEngine::gloo;
  /// The fewest ranks with which the group continues after others are gone, by Group::renew(),
  /// which new ranks may also join; 0: the group ends when the first rank is lost.
  std::int64_t least = 0;
  /// Called once if this rank still waits for others after five seconds, or after half of the
  /// timeout: the note names the missing ranks and the variables that make it wait. Of the ranks
  /// that have arrived only the first one calls it. Null: no note.
  std::function<void(const std::string& note)> tell_waiting = tell_on_standard_error;
};

/// The members of a renewed group: for each rank its number in the previous group; nothing for
/// ranks that joined.
using FormerRanks = std::vector<std::optional<std::int64_t>>;

/// A collective in progress. Its tensors must not be touched before wait() returns.
class Work {
 public:
  virtual ~Work() = default;
  /// Throws a runtime Error that names the missing ranks, or the reason for which one failed.
  virtual void wait() = 0;
  /// Whether wait() would return, or throw, at once.
  virtual bool is_done() const = 0;
};

/// The processes that train together. All must call the same collectives in the same order, with
/// contiguous tensors of the same shape and dtype (fp32, fp64, int64, bytes), all in host memory or
/// each on its rank's GPU.
///
/// A rank that fails reports the reason to the others (`fail`). The others name a rank that dies,
/// hangs or is cut off: each rank publishes a heartbeat and the number of its current collective in
/// the launcher's key-value store. All ranks report the first error of any rank.
///
/// An Accumulator or a step takes a group as its option `group`, and must then be made and called
/// on all ranks alike. Its gradients may be in transit from a window's last backward to its step(),
/// so no other collective may be called in between.
class Group : public Exchange, public accum::RankGroup, public std::enable_shared_from_this<Group> {
 public:
  /// Replaces `values` by their sum over the ranks, with the same bits on all ranks. `what` is the
  /// purpose, for errors.
  virtual std::unique_ptr<Work> start_sum(at::Tensor values, std::string_view what) = 0;
  /// Exchange::all_to_all(rows) into `received`, of the shape and dtype of `rows`.
  virtual std::unique_ptr<Work> start_all_to_all(at::Tensor rows, at::Tensor received,
                                                 std::string_view what) = 0;
  /// Sends to rank `to`, which must receive with the same dtype and number of elements. Messages
  /// between two ranks arrive in the order in which they were sent. start_send() and
  /// start_receive() are not collectives, and may be in progress next to them. Their Work is only
  /// done after wait().
  virtual std::unique_ptr<Work> start_send(at::Tensor values, std::int64_t to,
                                           std::string_view what) = 0;
  /// Replaces `values` by the next message from rank `from`.
  virtual std::unique_ptr<Work> start_receive(at::Tensor values, std::int64_t from,
                                              std::string_view what) = 0;
  /// Returns [world, ...] on rank `root`, with `own` of rank q in row q, and an undefined tensor on
  /// other ranks.
  virtual at::Tensor gather(const at::Tensor& own, std::int64_t root, std::string_view what) = 0;
  /// Replaces `values` by those of rank `root`.
  virtual void broadcast(at::Tensor values, std::int64_t root, std::string_view what) = 0;
  /// Returns the sum of all ranks' row rank(), added in rank order; `rows` is [world, ...].
  at::Tensor reduce_scatter(const at::Tensor& rows);
  /// Returns when all ranks have called it.
  virtual void barrier(std::string_view what) = 0;
  /// Returns the texts of all ranks, by rank, through the store; for infrequent use. `topic` names
  /// them in errors.
  virtual std::vector<std::string> gather_texts(std::string_view topic,
                                                const std::string& mine) = 0;
  /// Sends `number` to all ranks within a second, independently of collectives; returns at once.
  /// Any rank may call it; the largest of several numbers counts. For facts that ranks must know of
  /// each other between two collectives.
  virtual void announce(std::int64_t number) = 0;
  /// The largest number announced by a rank of this group, as far as this rank has received it; 0
  /// if there is none.
  virtual std::int64_t announced() = 0;
  /// Reports the reason for which this rank ends to the others; call it before the process ends.
  /// Their pending calls fail within a second, with this reason. Does nothing if an earlier error
  /// is known, which then is also the reason of this rank.
  virtual void fail(const std::string& reason) noexcept = 0;

  /// Whether renew() may be called: if GroupOptions::least allows it, from settle() on.
  virtual bool may_be_renewed() const = 0;
  /// Whether the ranks had already met when this process started: it must ask to join them by
  /// renew() before any other call.
  virtual bool comes_late() const = 0;
  /// Whether a process asks to join, as known to the first rank within about a second; always false
  /// on other ranks. Returns at once.
  virtual bool has_applicants() = 0;
  /// Whether a rank of a renewable group is known to have ended, which usually takes less
  /// than half a second; returns at once. Collectives started after that throw RanksGone at
  /// once.
  virtual bool has_lost_one() = 0;
  /// Call when the group is set up and its work starts. From then on lost ranks only cause
  /// RanksGone, and a process that joined a group that was lost before is left out of the next.
  virtual void settle() = 0;
  /// Called from time to time while there are fewer ranks than the group needs, with their number
  /// and whether this rank would be the first of them; return false to stop waiting.
  using KeepWaiting = std::function<bool(std::int64_t ranks, bool is_first)>;
  /// Forms the group again from the remaining ranks and those that ask to join: rank() and world()
  /// change. All living ranks must call it, after a call threw RanksGone or by agreement. Work in
  /// progress is lost; no object may wait for it any more.
  ///
  /// Throws a runtime Error if the store's host is gone, the others continued without this rank, or
  /// the waiting was stopped.
  virtual FormerRanks renew(const KeepWaiting& keep_waiting) = 0;
  /// The number of groups before this one, the same on all ranks.
  virtual std::int64_t generation() const = 0;

  /// The bytes sent from this rank. A sum sends 2 (world - 1) / world times its bytes, as in a
  /// ring.
  virtual std::int64_t wire_bytes() const = 0;

  std::unique_ptr<accum::SharedSums> share_sums(std::shared_ptr<accum::GradientBuffer> buffer,
                                                const accum::SharingOptions& options) override;

 private:
  friend class GroupSums;
  int sharers_ = 0;  ///< accumulators that share their sums over it
};

/// Whether this build has process groups, which connect() needs.
bool has_process_groups();

/// Whether DeviceEngine::nccl is available: its library lies next to this program.
bool has_nccl();

/// Joins the group described by `launch`, with world >= 2 ranks. Throws a usage Error if this build
/// has no process groups, if other machines can reach the ranks' store and there is no run token,
/// or if ranks have different tokens (naming them). Throws a runtime Error that names the ranks
/// that did not arrive in time.
std::shared_ptr<Group> connect(const Launch& launch, const GroupOptions& options = {});

/// Joins the processes that torchrun, mpirun or srun started with this one, by their variables
/// (launch_of). Null if this process is alone. Throws the errors of launch_of() and connect().
std::shared_ptr<Group> join(const GroupOptions& options = {});

/// Runs `body`, which is all of this rank's work with the group, and returns when every rank has
/// finished its own. If it throws, the other ranks fail with that reason, and the exception is
/// rethrown. With a null group it only runs `body`.
///
///   const auto group = accrue::distributed::join();
///   accrue::distributed::run_together(group.get(), [&] { train(group); });
void run_together(Group* group, const std::function<void()>& body);

}  // namespace accrue::distributed
