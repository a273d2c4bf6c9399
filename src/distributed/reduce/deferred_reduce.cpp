#include "distributed/reduce/deferred_reduce.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "accrue/core/clock.h"
#include "accrue/core/error.h"
#include "accrue/memory/offload_passes.h"
#include "accum/finite_sums.h"
#include "distributed/compress/compressed_sums.h"
#include "distributed/reduce/buckets.h"
#include "distributed/reduce/reducible_sums.h"
#include "distributed/reduce/scatter_reduce.h"
#include "distributed/reduce/slot_watch.h"
#include "distributed/reduce/status_row.h"

namespace accrue::distributed {
namespace {

using accum::Accumulation;
using accum::GradientBuffer;

/// Fixed-point sums can hold this many contributions to a parameter, which one rank checks itself.
constexpr std::int64_t kMostFixedContributions = 1 << 16;

/// Offloaded sums are reduced in parts of as many elements as this many of the largest buckets
/// have.
constexpr std::int64_t kBucketsOfAPart = 16;

}  // namespace

struct DeferredReduce::Impl {
  Impl(std::shared_ptr<Group> ranks, std::shared_ptr<GradientBuffer> sums, ReduceOptions given)
      : group(std::move(ranks)),
        buffer(std::move(sums)),
        options(std::move(given)),
        buckets(make_buckets(places_of(*buffer), elements_of(options, *buffer))),
        watch(*buffer, [this] { begin_what_is_final(); }) {
    if (options.sharding)
      scatter = std::make_unique<ScatterReduce>(*group, *buffer, options.sharding->bytes_at_once());
    if (takes_sums_in_passes()) options.overlap = false;
    if (options.compress == Compression::none) return;
    options.overlap = false;
    compressed.emplace(buffer, places_of(*buffer), options.compress, group->world());
  }

  /// A bucket's sum over the ranks, in progress.
  struct StartedSum {
    std::unique_ptr<Work> work;
    std::vector<std::int64_t> contributions;  ///< by slot of the bucket, at its begin
  };

  at::Tensor values_of(const Bucket& bucket) const {
    return buffer->flat()[bucket.flat].narrow(0, bucket.offset, bucket.elements);
  }

  const Bucket& bucket_at(std::size_t position) const {
    return buckets[static_cast<std::size_t>(order->at(position))];
  }

  bool is_final(const Bucket& bucket) const {
    return std::ranges::all_of(bucket.slots,
                               [this](std::size_t slot) { return watch.is_final(slot); });
  }

  bool is_in_passes(std::size_t slot) const {
    return !options.in_passes.empty() && options.in_passes[slot];
  }
  bool takes_sums_in_passes() const {
    return std::ranges::any_of(options.in_passes, [](bool is_one) { return is_one; });
  }

  void make_zero_if_fresh(std::size_t slot) const {
    const auto& entry = buffer->entries()[slot];
    if (entry.slot->fresh) entry.slot->main.zero_();
  }

  void reduce_now(std::span<const std::size_t> slots) {
    RECORD_USER_SCOPE("reduce: segment");
    if (slots.empty()) return;
    const at::NoGradGuard no_grad;
    under_way.restart();
    for (const std::size_t slot : slots) make_zero_if_fresh(slot);
    scatter->push(slots);
    scatter->finish();
    spent.reduce_seconds += under_way.seconds();
  }

  void begin_next() {
    RECORD_USER_SCOPE("reduce: bucket");
    const Bucket& bucket = bucket_at(begun.size());
    StartedSum next;
    std::vector<std::size_t> slots;
    for (const std::size_t slot : bucket.slots) {
      next.contributions.push_back(buffer->entries()[slot].slot->contributions);
      if (is_in_passes(slot)) continue;
      make_zero_if_fresh(slot);
      slots.push_back(slot);
    }
    if (begun.empty()) under_way.restart();
    if (scatter && !slots.empty())
      scatter->push(slots);
    else if (!scatter)
      next.work = group->start_sum(values_of(bucket), "the sum of gradients");
    begun.push_back(std::move(next));
  }

  /// A reduction that cannot be completed is not begun: the sums stay this rank's own.
  bool is_broken() const { return begun.empty() && group->has_lost_one(); }
  bool overlaps() const { return options.overlap && order && is_first_round && !is_broken(); }

  /// Call it in the backward of the last micro-batch.
  void begin_what_is_final() {
    if (!is_last || is_void || !overlaps()) return;
    const Stopwatch stopwatch;
    while (begun.size() < buckets.size() && is_final(bucket_at(begun.size()))) begin_next();
    if (scatter) scatter->advance();
    seconds_in_backward += stopwatch.seconds();
  }

  /// The parts in which the remaining buckets are reduced, by the positions at which they end: all
  /// buckets at once, or, if the sums are offloaded, as many as are in memory together.
  std::vector<std::size_t> ends_of_parts() const {
    std::vector<std::size_t> ends;
    if (begun.size() == buckets.size()) return ends;
    if (memory::is_offloading()) {
      const std::int64_t most = kBucketsOfAPart * elements_of(options, *buffer);
      std::int64_t elements = 0;
      for (std::size_t position = begun.size(); position < buckets.size(); ++position) {
        const std::int64_t more = bucket_at(position).elements;
        if (elements > 0 && elements + more > most) {
          ends.push_back(position);
          elements = 0;
        }
        elements += more;
      }
    }
    ends.push_back(buckets.size());
    return ends;
  }

  /// Begins the remaining buckets. Waits for each part but the last before the next one begins,
  /// since offloaded sums that leave memory while they are summed would be read again.
  void begin_rest() {
    const std::size_t first = begun.size();
    const std::vector<std::size_t> ends = ends_of_parts();
    memory::for_parts(
        ends.size(),
        [&](std::size_t part) {
          std::vector<at::Tensor> sums;
          for (std::size_t at = part == 0 ? first : ends[part - 1]; at < ends[part]; ++at)
            sums.push_back(values_of(bucket_at(at)));
          return sums;
        },
        [&](std::size_t part) {
          while (begun.size() < ends[part]) begin_next();
          if (part + 1 < ends.size()) wait_for_begun();
        });
  }

  void wait_for_begun() {
    for (StartedSum& bucket : begun)
      if (const auto work = std::exchange(bucket.work, nullptr)) work->wait();
  }

  bool is_reduced() const {
    return begun.size() == buckets.size() && (!scatter || scatter->is_idle()) &&
           std::ranges::none_of(begun,
                                [](const StartedSum& bucket) { return bucket.work != nullptr; });
  }

  /// Begins the remaining buckets and waits for all. Nothing is in progress after it, even if it
  /// throws the first error.
  void reduce_all() {
    if (is_reduced()) return;
    std::exception_ptr first_error;
    const auto attempt = [&first_error](const auto& act) {
      try {
        act();
      } catch (...) {
        if (!first_error) first_error = std::current_exception();
      }
    };
    attempt([this] { begin_rest(); });
    RECORD_USER_SCOPE("reduce: wait");
    for (StartedSum& bucket : begun)
      if (const auto work = std::exchange(bucket.work, nullptr)) attempt([&] { work->wait(); });
    if (scatter) attempt([this] { scatter->finish(); });
    if (first_error) std::rethrow_exception(first_error);
    spent.reduce_seconds += under_way.seconds();
  }

  /// Does nothing for a window without weight: no step follows it, and the kept errors stay.
  void sum_compressed(double weight) {
    if (weight == 0) return;
    under_way.restart();
    compressed->sum(weight, *group);
    spent.reduce_seconds += under_way.seconds();
  }

  /// Whether a slot got a contribution after its bucket began: the model does not always use it as
  /// often as before.
  bool came_late() const {
    for (std::size_t position = 0; position < begun.size(); ++position) {
      const Bucket& bucket = bucket_at(position);
      for (std::size_t i = 0; i < bucket.slots.size(); ++i)
        if (watch.contributions(bucket.slots[i]) != begun[position].contributions[i]) return true;
    }
    return false;
  }

  /// All ranks take rank 0's order, from its first window on.
  void agree_on_order() {
    if (order) return;
    at::Tensor numbers = at::tensor(readiness_order(buckets, watch.final_at()), at::kLong);
    group->broadcast(numbers, 0, "the order of the reduction");
    const std::int64_t* first = numbers.const_data_ptr<std::int64_t>();
    order.emplace(first, first + numbers.numel());
  }

  RankStatus status_of(const Share& share) const {
    RankStatus status{.window = share.ledger.window,
                      .weight = share.ledger.committed_weight(),
                      .loss_sum = share.ledger.committed_loss_sum(),
                      .micro_batches = share.ledger.count(MicroStatus::committed),
                      .quarantined = share.ledger.count(MicroStatus::quarantined),
                      .is_lost = !share.lost_reason.empty(),
                      .is_void = is_void,
                      .left = left,
                      .rank_sums = rank_sums,
                      .figures = figures,
                      .loss_sums = tell_loss_sums ? tell_loss_sums() : std::vector<double>(),
                      .units = buffer->units()};
    for (std::size_t slot = 0; slot < buffer->entries().size(); ++slot)
      status.contributions.push_back(watch.contributions(slot));
    return status;
  }

  Agreed exchange_status(const Share& share) {
    RECORD_USER_SCOPE("reduce: status");
    const RankStatus mine = status_of(share);
    const at::Tensor rows = group->all_gather(to_row(mine));
    std::vector<RankStatus> ranks;
    for (std::int64_t rank = 0; rank < group->world(); ++rank)
      ranks.push_back(from_row(rows[rank], mine));
    return agree(ranks);
  }

  /// A window that comes back after its sums were complete was audited.
  void expect_finite_sums(std::int64_t index) const {
    if (index != audited || takes_sums_in_passes()) return;
    for (const GradientBuffer::Entry& entry : buffer->entries())
      if (!accum::sum_is_finite(entry))
        throw runtime_error("reduce the gradients of window " + std::to_string(index),
                            "finite sums of this rank, whose micro-batches were all looked at",
                            "one of '" + entry.name + "' that is not",
                            "another machine for this rank: no sample is the cause");
  }

  Agreed overlapped(const Share& share) {
    reduce_all();
    is_void = is_void || came_late();
    return exchange_status(share);
  }

  Agreed at_the_end(const Share& share) {
    Agreed agreed = exchange_status(share);
    if (!are_added(agreed)) return agreed;
    if (compressed) {
      sum_compressed(agreed.totals.weight);
      return agreed;
    }
    agree_on_order();
    reduce_all();
    return agreed;
  }

  static bool are_added(const Agreed& agreed) {
    return agreed.verdict == Agreed::Verdict::whole ||
           agreed.verdict == Agreed::Verdict::unfinished;
  }

  static Outcome::Verdict verdict_of(const Agreed& agreed) {
    using enum Agreed::Verdict;
    if (agreed.verdict == unfinished) return Outcome::Verdict::unfinished;
    return agreed.verdict == whole ? Outcome::Verdict::whole : Outcome::Verdict::dropped;
  }

  void check_fixed(const Agreed& agreed) const {
    if (buffer->accumulation() != Accumulation::fixed) return;
    if (std::ranges::all_of(agreed.contributions,
                            [](std::int64_t count) { return count <= kMostFixedContributions; }))
      return;
    throw usage_error("accumulate in fixed point",
                      "at most " + std::to_string(kMostFixedContributions) +
                          " contributions of all ranks to a parameter in a window",
                      "more", "larger micro-batches");
  }

  void take_whole(const Agreed& agreed) {
    check_fixed(agreed);
    audited = agreed.verdict == Agreed::Verdict::whole ? window : -1;
    for (std::size_t slot = 0; slot < buffer->entries().size(); ++slot) {
      const auto& entry = buffer->entries()[slot];
      entry.slot->contributions = agreed.contributions[slot];
      entry.slot->fresh = agreed.contributions[slot] == 0 && !has_leftovers(entry);
    }
  }

  /// Whether a parameter that no rank used gets kept errors of earlier sums as its gradient.
  bool has_leftovers(const GradientBuffer::Entry& entry) const {
    return compressed && entry.slot->main.any().item<bool>();
  }

  void enter_window(std::int64_t index) {
    if (index != window) spent = {};
    window = index;
  }

  Agreed run_round(const Share& share) {
    const Stopwatch exposed;
    const bool did_overlap = overlaps();
    Agreed agreed = did_overlap ? overlapped(share) : at_the_end(share);
    is_first_round = agreed.verdict != Agreed::Verdict::again;
    is_whole = agreed.verdict == Agreed::Verdict::whole;
    spent.exposed_seconds += exposed.seconds();
    spent.wire_bytes += group->wire_bytes() - std::exchange(wire_bytes_before, group->wire_bytes());
    totals = agreed.totals;
    totals.exposed_seconds = spent.exposed_seconds;
    totals.reduce_seconds = std::max(spent.reduce_seconds, spent.exposed_seconds);
    totals.wire_bytes = spent.wire_bytes;
    begun.clear();
    is_void = false;
    is_last = false;
    watch.end();
    // Rank 0 may not have observed yet when slots become final.
    if (agreed.verdict == Agreed::Verdict::unfinished && !did_overlap) order.reset();
    return agreed;
  }

  std::shared_ptr<Group> group;
  std::shared_ptr<GradientBuffer> buffer;
  ReduceOptions options;
  std::vector<Bucket> buckets;
  SlotWatch watch;
  std::optional<CompressedSums> compressed;
  std::unique_ptr<ScatterReduce> scatter;  ///< null: sums go to all ranks
  std::optional<std::vector<std::int64_t>> order;
  std::vector<StartedSum> begun;  ///< in the order agreed
  std::vector<double> rank_sums, figures;
  std::int64_t left = 0;
  TellLossSums tell_loss_sums;
  OnLossSums on_loss_sums;
  WindowTotals totals;
  std::exception_ptr error;  ///< from withdraw()
  Stopwatch under_way;
  double seconds_in_backward = 0;
  WindowTotals spent;  ///< times and bytes of this window, over all its rounds
  std::int64_t wire_bytes_before = 0;
  std::int64_t window = -1;
  std::int64_t audited = -1;   ///< the window that is audited if it comes back
  bool is_first_round = true;  ///< no round since sums were last whole or dropped
  bool is_last = false;        ///< whether the window's last micro-batch runs
  bool is_void = false;
  bool is_whole = false;  ///< the sums are those of all ranks, until the next micro-batch begins
};

DeferredReduce::DeferredReduce(std::shared_ptr<Group> group, std::shared_ptr<GradientBuffer> buffer,
                               ReduceOptions options) {
  require_exact_sums(*buffer, options.compress);
  impl_ = std::make_unique<Impl>(std::move(group), std::move(buffer), std::move(options));
}

DeferredReduce::~DeferredReduce() = default;

void DeferredReduce::begin_micro_batch(bool is_last) {
  impl_->is_last = is_last;
  impl_->is_whole = false;
  impl_->audited = -1;
  impl_->watch.begin_micro_batch();
}

double DeferredReduce::seconds_in_backward() const { return impl_->seconds_in_backward; }

bool DeferredReduce::has_local_sums() const {
  return impl_->begun.empty() && !impl_->is_void && !impl_->is_whole && !impl_->compressed &&
         !impl_->takes_sums_in_passes();
}

const accum::SumShard* DeferredReduce::shard() const { return impl_->options.sharding.get(); }

bool DeferredReduce::takes_sums_in_passes() const { return impl_->takes_sums_in_passes(); }

void DeferredReduce::reduce_now(std::span<const std::size_t> slots) { impl_->reduce_now(slots); }

void DeferredReduce::add_up(const at::Tensor& values) {
  values.copy_(add_in_order(impl_->group->all_gather(values.contiguous())));
}

void DeferredReduce::set_rank_sums(std::vector<double> rank_sums) {
  impl_->rank_sums = std::move(rank_sums);
}

void DeferredReduce::set_figures(std::vector<double> figures) {
  impl_->figures = std::move(figures);
}

void DeferredReduce::set_left(std::int64_t samples) { impl_->left = samples; }

void DeferredReduce::set_loss_sums(TellLossSums mine, OnLossSums told) {
  impl_->tell_loss_sums = std::move(mine);
  impl_->on_loss_sums = std::move(told);
}

const WindowTotals& DeferredReduce::totals() const { return impl_->totals; }

NamedParameters DeferredReduce::state() {
  if (!impl_->compressed) return {};
  NamedParameters state = impl_->compressed->state(*impl_->group);
  impl_->wire_bytes_before = impl_->group->wire_bytes();
  return state;
}

void DeferredReduce::load_state(const StoredTensors& state) {
  if (impl_->compressed) impl_->compressed->load_state(state, impl_->group->rank());
}

accum::Reduction::Outcome DeferredReduce::reduce(GradientBuffer& buffer, const Share& share) {
  Impl& self = *impl_;
  if (self.error) std::rethrow_exception(std::exchange(self.error, nullptr));
  self.expect_finite_sums(share.ledger.window);
  self.enter_window(share.ledger.window);
  const Agreed agreed = self.run_round(share);
  if (agreed.verdict == Agreed::Verdict::again) {
    buffer.raise_units(agreed.units);
    return {.verdict = Outcome::Verdict::again, .reason = agreed.reason};
  }
  const bool added = Impl::are_added(agreed);
  if (added && self.on_loss_sums && self.on_loss_sums(agreed.loss_sums))
    return {.verdict = Outcome::Verdict::again,
            .reason = "the losses' total weights changed with a micro-batch that was left out",
            .rescaled = true};
  if (added) self.take_whole(agreed);
  return {
      .verdict = Impl::verdict_of(agreed), .weight = agreed.totals.weight, .reason = agreed.reason};
}

/// The other ranks wait for the buckets that were begun, or will: so all are reduced, and do not
/// count.
void DeferredReduce::withdraw() noexcept {
  Impl& self = *impl_;
  self.watch.forget();
  self.is_last = false;
  if (self.begun.empty()) return;
  try {
    self.reduce_all();
  } catch (...) {
    self.error = std::current_exception();
  }
  self.is_void = true;
}

}  // namespace accrue::distributed
