#include "train/workload/reference_bytes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/checksum.h"

namespace accrue::train {

std::string reference_to_bytes(const std::vector<double>& log_probabilities) {
  std::string bytes(reinterpret_cast<const char*>(log_probabilities.data()),
                    log_probabilities.size() * sizeof(double));
  return bytes + checksum_of(bytes);
}

std::optional<std::vector<double>> reference_of_bytes(std::string_view bytes, std::int64_t pairs) {
  constexpr std::size_t checksum_digits = 16, bytes_a_pair = 2 * sizeof(double);
  const auto count = static_cast<std::size_t>(pairs);
  if (bytes.size() < checksum_digits || (bytes.size() - checksum_digits) / bytes_a_pair != count ||
      (bytes.size() - checksum_digits) % bytes_a_pair != 0)
    return std::nullopt;
  const std::string_view numbers = bytes.substr(0, bytes.size() - checksum_digits);
  if (checksum_of(numbers) != bytes.substr(numbers.size())) return std::nullopt;
  std::vector<double> values(2 * count);
  if (!values.empty()) std::memcpy(values.data(), numbers.data(), numbers.size());
  const bool finite =
      std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
  return finite ? std::optional(std::move(values)) : std::nullopt;
}

}  // namespace accrue::train
