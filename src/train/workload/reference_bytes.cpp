#include "train/workload/reference_bytes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace accrue::train {

std::string reference_to_bytes(const std::vector<double>& log_probabilities) {
  return {reinterpret_cast<const char*>(log_probabilities.data()),
          log_probabilities.size() * sizeof(double)};
}

std::optional<std::vector<double>> reference_of_bytes(std::string_view bytes, std::int64_t pairs) {
  constexpr std::size_t bytes_a_pair = 2 * sizeof(double);
  const auto count = static_cast<std::size_t>(pairs);
  if (bytes.size() / bytes_a_pair != count || bytes.size() % bytes_a_pair != 0) return std::nullopt;
  std::vector<double> values(2 * count);
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  const bool finite =
      std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
  return finite ? std::optional(std::move(values)) : std::nullopt;
}

}  // namespace accrue::train
