#include "reduce_scenario.h"

#include <csignal>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>

#include "accrue/accum/window.h"
#include "accrue/memory/caching_allocator.h"
#include "accrue/memory/offload.h"
#include "distributed/reduce/deferred_reduce.h"
#include "distributed/staged_problem.h"
#include "rank_scenarios.h"

namespace accrue::distributed {
namespace {

using namespace std::chrono_literals;
using accrue::testing::StagedProblem;

constexpr int kWindows = 3;
/// The window with the fault: one whose reduction overlaps.
constexpr int kBadWindow = 1;
/// A few elements, so that there are several buckets.
constexpr std::int64_t kBucketBytes = 64;
/// For a sharded run: so that large parameters travel in several parcels.
constexpr std::int64_t kBytesAtOnce = 4096;

/// Which rank runs a micro-batch.
std::int64_t owner(std::size_t micro, const std::string& sharing, std::int64_t world) {
  if (sharing == "turns") return static_cast<std::int64_t>(micro) % world;
  if (sharing == "uneven") return micro == 0 ? 0 : world - 1;
  return 0;
}

/// A mode is a way to sum exactly, or a compression.
Compression compression_of(const std::string& mode) {
  return mode == "overlap" || mode == "end" ? Compression::none : *compression_words.find(mode);
}

/// A scope in which the sums are offloaded, if `words` say so; null otherwise.
std::unique_ptr<memory::OffloadScope> offload_scope(const std::vector<std::string>& words) {
  if (words.at(4) != "offloaded") return nullptr;
  memory::install_caching_allocator();
  return std::make_unique<memory::OffloadScope>(words.at(6));
}

/// A reduction of a rank whose sums are damaged before they reach it, in the bad window: `times`
/// times.
class DamagedSums final : public accum::Reduction {
 public:
  DamagedSums(DeferredReduce& reduce, int times) : reduce_(reduce), left_(times) {}

  Outcome reduce(accum::GradientBuffer& buffer, const Share& share) override {
    if (share.ledger.window == kBadWindow && left_-- > 0)
      buffer.entries()[2].slot->main.view({-1})[0] = std::numeric_limits<double>::quiet_NaN();
    return reduce_.reduce(buffer, share);
  }
  const accum::SumShard* shard() const override { return reduce_.shard(); }
  void withdraw() noexcept override { reduce_.withdraw(); }

 private:
  DeferredReduce& reduce_;
  int left_;
};

class Rank {
 public:
  Rank(const Launch& launch, const std::vector<std::string>& words)
      : offload_(offload_scope(words)),
        sharing_(words.at(2)),
        fault_(words.at(3)),
        problem_(accrue::testing::make_staged_problem(
            words.at(0) == "fp64" ? at::kDouble : at::kFloat, std::stoll(words.at(5)))),
        buffer_(std::make_shared<accum::GradientBuffer>(
            problem_.parameters, *accum::accumulation_words.find(words.at(0)))),
        window_(buffer_) {
    window_.set_replay([this](const MicroRef& micro) {
      return run(static_cast<std::size_t>(micro.sample_ids.front()));
    });
    if (launch.world == 1) return;
    group_ = connect(launch, {.timeout = 120s});
    line_up("connected");  // no refused rank leaves before the others are there
    if (words.at(4) == "sharded")
      sharding_ = std::make_shared<Sharding>(group_, problem_.parameters, std::vector<bool>(),
                                             kBytesAtOnce);
    reduce_.emplace(group_, buffer_,
                    ReduceOptions{.overlap = words.at(1) == "overlap",
                                  .bucket_bytes = kBucketBytes,
                                  .compress = compression_of(words.at(1)),
                                  .sharding = sharding_});
    window_.set_reduction(&*reduce_);
    if (!fault_.starts_with("damaged") || rank() != 1) return;
    damaged_.emplace(*reduce_, fault_ == "damaged-once" ? 1 : kWindows);
    window_.set_reduction(&*damaged_);
  }
  ~Rank() {
    window_.discard();
    window_.set_reduction(nullptr);
  }

  void train() {
    run_together(group_.get(), [this] {
      std::cout << "offloaded " << memory::is_offloaded(buffer_->flat().front()) << '\n';
      for (index_ = 0; index_ < kWindows; ++index_) train_window();
      for (const NamedParameter& parameter : problem_.parameters)
        print(parameter.name, parameter.tensor);
    });
  }

 private:
  std::int64_t rank() const { return group_ ? group_->rank() : 0; }
  std::int64_t world() const { return group_ ? group_->world() : 1; }

  void train_window() {
    const std::int64_t sent_before = group_ ? group_->wire_bytes() : 0;
    window_.open(index_);
    const std::vector<std::size_t> mine = share();
    for (std::size_t i = 0; i < mine.size(); ++i) run_micro_batch(mine[i], i + 1 == mine.size());
    if (reduce_) reduce_->set_rank_sums({static_cast<double>(mine.size())});
    std::optional<accum::MeanGradient> gradient = window_.close();
    if (gradient) step(*gradient);
    std::cout << "weight " << (gradient ? gradient->weight() : 0) << "\nretries "
              << window_.retries() << "\nquarantined "
              << window_.ledger().count(MicroStatus::quarantined) << '\n';
    if (reduce_)
      std::cout << "figures " << reduce_->totals().rank_sums.at(0) << "\nwire "
                << reduce_->totals().wire_bytes << "\nsent " << group_->wire_bytes() - sent_before
                << "\nlost " << window_.lost_reason() << '\n';
  }

  std::vector<std::size_t> share() const {
    std::vector<std::size_t> mine;
    for (std::size_t micro = 0; micro < problem_.size(); ++micro)
      if (owner(micro, sharing_, world()) == rank()) mine.push_back(micro);
    return mine;
  }

  bool goes_wrong(std::size_t micro) const {
    return index_ == kBadWindow && micro == problem_.size() - 1;
  }

  void run_micro_batch(std::size_t micro, bool is_last) {
    const MicroRef ref{.index = static_cast<std::int64_t>(micro),
                       .sample_ids = {static_cast<std::int64_t>(micro)}};
    if (goes_wrong(micro) && (fault_ == "aborted" || fault_ == "lost")) {
      begin(ref, is_last);
      run(micro);
      if (fault_ == "lost") window_.set_replay({});
      window_.abort(MicroStatus::lost, "out of memory");
    }
    begin(ref, is_last);
    const Loss loss = run(micro);
    window_.commit(loss.sum.item<double>(), loss.weight);
  }

  /// In its last micro-batch, in whose backward buckets begin.
  bool is_to_die() const {
    return fault_ == "killed" && index_ == kBadWindow && rank() == 1 && is_last_;
  }

  void begin(const MicroRef& ref, bool is_last) {
    is_last_ = is_last;
    window_.begin(ref);
    // Buckets that were begun in the backward might be sent before their sums are damaged.
    if (reduce_) reduce_->begin_micro_batch(is_last && !damaged_);
  }

  Loss run(std::size_t micro) {
    Loss loss = problem_.run(micro, [this] {
      if (is_to_die()) std::raise(SIGKILL);
    });
    if (!goes_wrong(micro)) return loss;
    if (fault_ == "nan") contribute(std::numeric_limits<double>::quiet_NaN());
    if (fault_ == "large") contribute(1e12);
    if (fault_ == "twice") contribute(0);
    return loss;
  }

  /// Contributes to the last layer, whose bucket began long ago.
  void contribute(double value) {
    torch::autograd::backward({problem_.parameter(2).mul(value).sum()});
  }

  void step(accum::MeanGradient& gradient) {
    const at::NoGradGuard no_grad;
    std::cout << "norm " << gradient.norm() << '\n';
    for (std::size_t i = 0; i < problem_.parameters.size(); ++i) {
      const at::Tensor all = problem_.parameter(i).detach().view({-1});
      const ElementRange mine =
          element_range_of(all.numel(), i, sharding_ ? sharding_->slice() : RankSlice{});
      const at::Tensor values = all.narrow(0, mine.begin, mine.elements);
      values.sub_(
          gradient.source(i).part(mine).scaled_copy(gradient.scale() * problem_.rate(), values));
    }
    if (sharding_ && !(fault_ == "apart" && index_ + 1 == kWindows)) sharding_->gather_parameters();
  }

  std::unique_ptr<memory::OffloadScope> offload_;  ///< null: the sums are in memory
  std::string sharing_, fault_;
  StagedProblem problem_;
  std::shared_ptr<accum::GradientBuffer> buffer_;
  accum::Window window_;
  std::shared_ptr<Group> group_;
  std::shared_ptr<Sharding> sharding_;
  std::optional<DeferredReduce> reduce_;
  std::optional<DamagedSums> damaged_;
  int index_ = 0;
  bool is_last_ = false;  ///< the current micro-batch
};

}  // namespace

void reduce_windows(const Launch& launch, const std::vector<std::string>& words) {
  std::cout.precision(std::numeric_limits<double>::max_digits10);
  Rank(launch, words).train();
}

void other_shapes(const Launch& launch, const std::vector<std::string>&) {
  const std::shared_ptr<Group> group = connect(launch, {.timeout = 120s});
  const StagedProblem problem =
      accrue::testing::make_staged_problem(at::kFloat, group->rank() == 1 ? 9 : 7);
  const auto buffer =
      std::make_shared<accum::GradientBuffer>(problem.parameters, accum::Accumulation::fp32);
  run_together(group.get(), [&] { group->share_sums(buffer, {}); });
}

}  // namespace accrue::distributed
