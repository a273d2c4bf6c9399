#include "batch/interleaving.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <queue>
#include <string>
#include <utility>

#include "accrue/core/error.h"

namespace accrue::batch {
namespace {

using Shares = std::vector<std::int64_t>;

void require_weights(const std::vector<double>& weights, std::int64_t most) {
  const auto limit = std::min<std::int64_t>(most, std::numeric_limits<std::uint16_t>::max());
  if (weights.empty() || std::ssize(weights) > limit)
    throw usage_error("mix sources", "from one to " + std::to_string(limit) + " of them",
                      std::to_string(weights.size()), "fewer patterns that match more files");
  for (const double weight : weights)
    if (!(weight > 0) || !std::isfinite(weight))
      throw usage_error("mix sources", "weights above 0", std::to_string(weight),
                        "leaving out what is not to be drawn");
}

/// The weights as integers, if a power of ten makes them such.
std::optional<Shares> scaled_to_integers(const std::vector<double>& weights) {
  constexpr double most_scale = 1e6, largest = 1e12, tolerance = 1e-9;
  for (double scale = 1; scale <= most_scale; scale *= 10) {
    Shares shares;
    for (const double weight : weights) {
      const double scaled = weight * scale, whole = std::round(scaled);
      if (whole < 1 || whole > largest || std::abs(scaled - whole) > tolerance * whole) break;
      shares.push_back(static_cast<std::int64_t>(whole));
    }
    if (shares.size() == weights.size()) return shares;
  }
  return std::nullopt;
}

std::int64_t sum_of(const Shares& shares) {
  return std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
}

Shares in_lowest_terms(Shares shares) {
  std::int64_t divisor = 0;
  for (const std::int64_t share : shares) divisor = std::gcd(divisor, share);
  for (std::int64_t& share : shares) share /= divisor;
  return shares;
}

/// Shares of `sum` by the largest remainder (Hamilton's method); a source without a share gets one
/// from those with the most.
Shares rounded_to_sum(const std::vector<double>& weights, std::int64_t sum) {
  const double largest = *std::max_element(weights.begin(), weights.end());
  double all = 0;  // of ratios, since the sum of the weights may overflow
  for (const double weight : weights) all += weight / largest;
  Shares shares;
  std::vector<std::pair<double, std::size_t>> remainders;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double exact = weights[i] / largest / all * static_cast<double>(sum);
    shares.push_back(std::max<std::int64_t>(1, static_cast<std::int64_t>(exact)));
    remainders.emplace_back(static_cast<double>(shares.back()) - exact, i);
  }
  std::sort(remainders.begin(), remainders.end());
  std::int64_t left = sum - sum_of(shares);
  for (std::size_t i = 0; left > 0; i = (i + 1) % remainders.size(), --left)
    ++shares[remainders[i].second];
  for (; left < 0; ++left) --*std::max_element(shares.begin(), shares.end());
  return shares;
}

/// A draw that is due, earliest first; of equal ones the first source.
using Due = std::pair<std::int64_t, std::size_t>;
using Queue = std::priority_queue<Due, std::vector<Due>, std::greater<>>;

}  // namespace

std::vector<std::int64_t> whole_shares(const std::vector<double>& weights, std::int64_t most) {
  require_weights(weights, most);
  if (auto integers = scaled_to_integers(weights)) {
    Shares lowest = in_lowest_terms(std::move(*integers));
    if (sum_of(lowest) <= most) return lowest;
  }
  return in_lowest_terms(rounded_to_sum(weights, most));
}

Interleaving::Interleaving(const std::vector<double>& weights)
    : shares_(whole_shares(weights, longest_period)) {
  const std::int64_t period = sum_of(shares_);
  sources_.reserve(static_cast<std::size_t>(period));
  numbers_.reserve(static_cast<std::size_t>(period));
  std::vector<std::int64_t> taken(shares_.size(), 0);
  Queue waiting, ready;  // by the earliest, and by the latest draw
  for (std::size_t source = 0; source < shares_.size(); ++source) waiting.emplace(0, source);
  for (std::int64_t turn = 0; turn < period; ++turn) {
    for (; !waiting.empty() && waiting.top().first <= turn; waiting.pop()) {
      const std::size_t source = waiting.top().second;
      const std::int64_t share = shares_[source];
      ready.emplace(((taken[source] + 1) * period + share - 1) / share, source);
    }
    const std::size_t source = ready.top().second;
    ready.pop();
    sources_.push_back(static_cast<std::uint16_t>(source));
    numbers_.push_back(static_cast<std::uint32_t>(taken[source]++));
    waiting.emplace(taken[source] * period / shares_[source], source);
  }
}

Interleaving::Turn Interleaving::turn(std::int64_t draw) const {
  const auto place = static_cast<std::size_t>(draw % period());
  const std::size_t source = sources_[place];
  return {source, draw / period() * shares_[source] + numbers_[place]};
}

std::int64_t Interleaving::count(std::size_t source, std::int64_t draws) const {
  const auto rest = sources_.begin() + draws % period();
  return draws / period() * shares_[source] +
         std::count(sources_.begin(), rest, static_cast<std::uint16_t>(source));
}

}  // namespace accrue::batch
