#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/core/parameter.h"

namespace accrue::models {

/// The random stream of a parameter: its name's hash (FNV-1a, 64 bit), so a value depends on (seed,
/// name) and neither on the order of creation nor on what else there is.
std::uint64_t stream_of(std::string_view name);

/// Makes a model's parameters in registration order and draws their values at the end, in parallel.
class ParameterBuilder {
 public:
  explicit ParameterBuilder(at::ScalarType dtype) : dtype_(dtype) {}

  at::Tensor constant(const std::string& name, std::vector<std::int64_t> shape, double value);
  /// Makes a parameter that draw() fills; until then it is zero.
  at::Tensor normal(const std::string& name, std::vector<std::int64_t> shape,
                    double standard_deviation);

  void draw(std::uint64_t seed);
  NamedParameters take() { return std::move(parameters_); }

 private:
  struct Pending {
    std::size_t index;
    double standard_deviation;
  };

  at::ScalarType dtype_;
  NamedParameters parameters_;
  std::vector<Pending> pending_;
};

}  // namespace accrue::models
