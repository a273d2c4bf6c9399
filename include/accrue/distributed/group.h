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

/// What moves tensors that lie on a GPU. Those in host memory are Gloo's.
enum class DeviceEngine {
  gloo,  ///< through host memory
  nccl,  ///< from GPU to GPU; each rank has one of its own
};

/// Thrown where ranks are gone, or do not come: what was under way is lost, and so is every later
/// collective, until the ranks that are left make their group anew (Group::renew).
class RanksGone : public Error {
 public:
  explicit RanksGone(const Error& error) : Error(error) {}
};

/// Writes a line to the standard error.
void tell_on_standard_error(const std::string& line);

struct GroupOptions {
  /// How long a rank waits for the others: to connect, and in each collective. > 0. Whatever
  /// became of them or of the store's host, it has given up five seconds later at most.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
  DeviceEngine device_engine = DeviceEngine::gloo;
  /// The fewest ranks that go on when others are gone, by Group::renew(), which others may join; 0:
  /// the group ends with the first that is lost.
  std::int64_t least = 0;
  /// Told once if this rank still waits for others after five seconds, or half of the timeout: for
  /// whom, and which variables make it wait. Of those that have come the first is told. Null:
  /// nobody.
  std::function<void(const std::string& note)> tell_waiting = tell_on_standard_error;
};

/// A group that was made anew: for each of its ranks the one that it was in the group before; none
/// for those that joined.
using FormerRanks = std::vector<std::optional<std::int64_t>>;

/// A collective under way. Its tensors must not be touched before wait() returned.
class Work {
 public:
  virtual ~Work() = default;
  /// Throws a runtime Error that names the ranks that are missing, or what made one fail.
  virtual void wait() = 0;
  /// Whether wait() would return, or throw, at once.
  virtual bool is_done() const = 0;
};

/// The processes that train together. All of them call the same collectives in the same order, with
/// contiguous tensors of the same shape and dtype (fp32, fp64, int64, bytes), all in host memory or
/// each on its rank's GPU.
///
/// A rank that fails tells the others why (`fail`). One that dies, hangs or is cut off is named by
/// them: each rank publishes, in the launcher's key-value store, a heartbeat and the number of the
/// collective that it enters. The first error of any rank is the one that all report.
///
/// An Accumulator or a step takes one as its options' `group`, and is then made and called on all
/// ranks alike. Its gradients may be under way from a window's last backward to its step(), so
/// there no other collective may come between.
class Group : public Exchange, public accum::RankGroup, public std::enable_shared_from_this<Group> {
 public:
  /// Replaces `values` by their sum over the ranks, with the same bits on all of them. `what` says
  /// in errors what it was for.
  virtual std::unique_ptr<Work> start_sum(at::Tensor values, std::string_view what) = 0;
  /// Exchange::all_to_all(rows) into `received`, of the shape and dtype of `rows`.
  virtual std::unique_ptr<Work> start_all_to_all(at::Tensor rows, at::Tensor received,
                                                 std::string_view what) = 0;
  /// Sends from this rank to rank `to` alone, which receives it with the same dtype and number of
  /// elements. What one rank sends another arrives in the order in which it was sent. start_send()
  /// and start_receive() are no collectives, and may be under way beside them. Their Work is done
  /// only when it was waited for.
  virtual std::unique_ptr<Work> start_send(at::Tensor values, std::int64_t to,
                                           std::string_view what) = 0;
  /// Replaces `values` by the next that rank `from` sends.
  virtual std::unique_ptr<Work> start_receive(at::Tensor values, std::int64_t from,
                                              std::string_view what) = 0;
  /// Returns [world, ...] on rank `root`, row q being rank q's `own`, and an undefined tensor
  /// elsewhere.
  virtual at::Tensor gather(const at::Tensor& own, std::int64_t root, std::string_view what) = 0;
  /// Replaces `values` by those of rank `root`.
  virtual void broadcast(at::Tensor values, std::int64_t root, std::string_view what) = 0;
  /// Returns the sum of all ranks' row rank(), added in order of rank; `rows` is [world, ...].
  at::Tensor reduce_scatter(const at::Tensor& rows);
  /// Returns when all ranks called it.
  virtual void barrier(std::string_view what) = 0;
  /// All ranks' texts by rank, through the store: for what is said seldom. `topic` says in errors
  /// what they are.
  virtual std::vector<std::string> gather_texts(std::string_view topic,
                                                const std::string& mine) = 0;
  /// Lets all ranks hear `number` within a second, beside collectives, whatever they do meanwhile;
  /// returns at once. Any rank may; of several numbers the largest counts. For what ranks are to
  /// know of each other between two collectives.
  virtual void announce(std::int64_t number) = 0;
  /// The largest number that a rank of this group announced, as far as this rank has heard; 0: none
  /// did.
  virtual std::int64_t announced() = 0;
  /// Tells the others why this rank ends; to be called before its process does. Whatever they wait
  /// in fails within a second, with this reason. Does nothing if an earlier error is known,
  /// which then is the reason of this one too.
  virtual void fail(const std::string& reason) noexcept = 0;

  /// Whether renew() may be called: where GroupOptions::least says so, from settle() on.
  virtual bool may_be_renewed() const = 0;
  /// Whether the ranks had met before this process came: it asks to join them by renew(), and
  /// takes part in nothing before that.
  virtual bool comes_late() const = 0;
  /// Whether somebody asks to join, as far as the first rank has heard, within a second or so; on
  /// other ranks false. Returns at once.
  virtual bool has_applicants() = 0;
  /// Whether a rank of a group that may be renewed is known to have ended, as is mostly heard of
  /// within half a second; returns at once. Collectives that are begun from then on throw RanksGone
  /// at once.
  virtual bool has_lost_one() = 0;
  /// To be called once the group does what it is for. From then on ranks that are lost end it with
  /// RanksGone alone; and who joined a group that is lost before is left out of the next.
  virtual void settle() = 0;
  /// Asked from time to time while fewer ranks are there than the group needs, and told how many
  /// there are and whether this one would be the first of them; false ends the waiting.
  using KeepWaiting = std::function<bool(std::int64_t ranks, bool is_first)>;
  /// Makes the group anew, of the ranks that are left and those that ask to join: rank() and
  /// world() become others. All ranks that live call it, where a call threw RanksGone, or where
  /// they agreed to. Work that was under way is lost; no object may wait for it any more.
  ///
  /// Throws a runtime Error if the store's host is gone, the others went on without this rank,
  /// or the waiting was ended.
  virtual FormerRanks renew(const KeepWaiting& keep_waiting) = 0;
  /// How many groups there were before this one, the same on all ranks.
  virtual std::int64_t generation() const = 0;

  /// Bytes that were sent from this rank. A sum sends 2 (world - 1) / world times its own bytes, as
  /// rings do.
  virtual std::int64_t wire_bytes() const = 0;

  std::unique_ptr<accum::SharedSums> share_sums(std::shared_ptr<accum::GradientBuffer> buffer,
                                                const accum::SharingOptions& options) override;

 private:
  friend class GroupSums;
  int sharers_ = 0;  ///< accumulators that share their sums over it
};

/// Whether this build has process groups, which connect() makes.
bool has_process_groups();

/// Whether DeviceEngine::nccl can be had: the library for it lies beside this program.
bool has_nccl();

/// Joins the group that `launch` describes, with world >= 2 ranks. Throws a usage Error if this
/// build has no process groups, if other machines can reach the ranks' store and they have no
/// run token, or that names the ranks with another token; and a runtime Error that names those that
/// did not come in time.
std::shared_ptr<Group> connect(const Launch& launch, const GroupOptions& options = {});

/// Joins the processes that torchrun, mpirun or srun started with this one, by the variables that
/// they set (launch_of); null if this process is alone. Throws as launch_of() and connect() do.
std::shared_ptr<Group> join(const GroupOptions& options = {});

/// Runs `body`, all that this rank does with the group, and returns when each rank is done with its
/// own. If it throws, the others end with that reason, and the exception goes on. Null: only
/// runs it.
///
///   const auto group = accrue::distributed::join();
///   accrue::distributed::run_together(group.get(), [&] { train(group); });
void run_together(Group* group, const std::function<void()>& body);

}  // namespace accrue::distributed
