#include "distributed/reduce/group_sums.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <utility>

#include "accrue/version.h"
#include "distributed/group/handshake.h"

namespace accrue::distributed {
namespace {

/// Returns the group after checking that its ranks share the same parameters in the same way.
std::shared_ptr<Group> alike(std::shared_ptr<Group> group, const accum::GradientBuffer& buffer,
                             const accum::SharingOptions& options) {
  NamedParameters trained;
  for (const auto& entry : buffer.entries()) trained.push_back({entry.name, entry.parameter});
  exchange_facts(*group, "who shares windows",
                 {{"version", version},
                  {"ranks", std::to_string(group->world())},
                  {"shapes of the parameters", shape_digest(trained)},
                  {"accumulate", std::string(accum::to_string(buffer.accumulation()))},
                  {"overlap", options.overlap ? "true" : "false"},
                  {"compress", std::string(to_string(options.compress))},
                  {"by_speed", options.by_speed ? "true" : "false"}});
  return group;
}

std::vector<RankPace> one_sample_each(std::int64_t world) {
  return std::vector<RankPace>(static_cast<std::size_t>(world));
}

}  // namespace

std::unique_ptr<accum::SharedSums> Group::share_sums(std::shared_ptr<accum::GradientBuffer> buffer,
                                                     const accum::SharingOptions& options) {
  return std::make_unique<GroupSums>(shared_from_this(), std::move(buffer), options);
}

GroupSums::GroupSums(std::shared_ptr<Group> group, std::shared_ptr<accum::GradientBuffer> buffer,
                     const accum::SharingOptions& options)
    : group_(alike(std::move(group), *buffer, options)),
      reduce_(group_, std::move(buffer),
              {.overlap = options.overlap, .compress = options.compress}),
      shares_(group_->rank(), one_sample_each(group_->world()), options.by_speed) {
  ++group_->sharers_;
}

GroupSums::~GroupSums() { --group_->sharers_; }

accum::WindowShare GroupSums::share(std::int64_t size) {
  const Lease mine = shares_.share(size);
  timed_.emplace(Timed{.reducing_before = reduce_.seconds_in_backward()});
  return {mine.begin, mine.begin + mine.count};
}

/// Two windows open at once would begin their collectives in different orders on the ranks.
void GroupSums::begin_micro_batch(bool is_last) {
  reduce_.begin_micro_batch(is_last && group_->sharers_ == 1);
}

std::vector<double> GroupSums::add_up(std::vector<double> numbers, std::string_view what) {
  const at::Tensor values = at::tensor(numbers, at::kDouble);
  group_->start_sum(values, what)->wait();
  const double* first = values.const_data_ptr<double>();
  return {first, first + values.numel()};
}

/// Ends the timing of this rank's work, at the first attempt to close the window.
void GroupSums::end_work() {
  if (!timed_ || std::exchange(timed_->is_done, true)) return;
  timed_->seconds =
      timed_->watch.seconds() - (reduce_.seconds_in_backward() - timed_->reducing_before);
}

/// The share's numbers, followed by `mine`.
std::vector<double> GroupSums::figures(const Figures& mine) const {
  std::vector<double> figures =
      timed_ ? shares_.figures(timed_->seconds) : std::vector<double>(WindowShares::kFigures, 0);
  figures.insert(figures.end(), mine.begin(), mine.end());
  return figures;
}

std::vector<accum::SharedSums::Figures> GroupSums::told_by_rank() const {
  std::vector<Figures> told;
  for (const accum::RankStatement& rank : totals().of_ranks)
    told.emplace_back(rank.figures.begin() + WindowShares::kFigures, rank.figures.end());
  return told;
}

accum::Reduction::Outcome GroupSums::reduce(accum::GradientBuffer& buffer, const Share& share) {
  end_work();
  const Figures mine = tell_figures_ ? tell_figures_() : Figures();
  reduce_.set_figures(figures(mine));
  Outcome outcome = reduce_.reduce(buffer, share);
  if (outcome.verdict == Outcome::Verdict::again) return outcome;
  if (on_figures_) on_figures_(told_by_rank());
  observe();
  return outcome;
}

/// Does nothing if no rank asked for its share.
void GroupSums::observe() {
  const std::vector<accum::RankStatement>& ranks = totals().of_ranks;
  if (timed_ || std::ranges::any_of(ranks, &WindowShares::has_share)) shares_.observe(ranks);
  timed_.reset();
}

}  // namespace accrue::distributed
