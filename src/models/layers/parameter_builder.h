#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/core/parameter.h"
#include "accrue/models/base_format.h"
#include "accrue/models/initialisation.h"
#include "kernels/blocks/blocks.h"

namespace accrue::models {

/// The random stream of a parameter: its name's hash (FNV-1a, 64 bit), so a value depends on (seed,
/// name) and neither on the order of creation nor on the other parameters.
std::uint64_t stream_of(std::string_view name);

/// Arithmetic of the products with `parameters` for one token, forward and backward: 6 operations
/// for each element, 4 if it is frozen and so has no gradient.
std::int64_t operations_of_products(const NamedParameters& parameters);

/// The block format for a base; none if it is not in blocks.
std::optional<kernels::BlockFormat> block_format_of(BaseFormat base);

/// Makes a model's parameters in registration order and draws their values at the end, in parallel.
class ParameterBuilder {
 public:
  ParameterBuilder(at::ScalarType dtype, Initialisation initialisation)
      : dtype_(dtype), matrices_(dtype), initialisation_(initialisation) {}

  /// Parameters made from here on are frozen: they need no gradient, and matrices are held in that
  /// dtype, those of linear layers in the format of `base`.
  void begin_frozen(at::ScalarType matrices, BaseFormat base = BaseFormat::as_stored) {
    matrices_ = matrices;
    base_ = base;
    trained_ = false;
  }
  void end_frozen() {
    matrices_ = dtype_;
    base_ = BaseFormat::as_stored;
    trained_ = true;
  }

  at::Tensor constant(const std::string& name, std::vector<std::int64_t> shape, double value);
  /// Makes a parameter whose values fill() or draw() will set; until then it is zero.
  at::Tensor normal(const std::string& name, std::vector<std::int64_t> shape,
                    double standard_deviation);
  /// The same for a linear layer's weight [rows, columns]. Throws a usage Error if the base's
  /// blocks do not divide the columns.
  at::Tensor weight(const std::string& name, std::int64_t rows, std::int64_t columns,
                    double standard_deviation);

  /// Whether parameters have values, and not only shapes.
  bool makes_values() const { return initialisation_ != Initialisation::shapes; }
  /// Fills the parameters made so far, by the initialisation.
  void fill(std::uint64_t seed) {
    if (initialisation_ != Initialisation::random) pending_.clear();
    draw(seed);
  }
  /// Draws the parameters made since, unless there are only shapes.
  void draw(std::uint64_t seed);
  NamedParameters take() { return std::move(parameters_); }

 private:
  struct Pending {
    std::size_t index;
    double standard_deviation;
  };

  at::Tensor made(const std::string& name, std::vector<std::int64_t> shape, at::ScalarType dtype,
                  double value);
  /// Pending parameters [begin, end), which are drawn in parallel.
  struct Group {
    std::size_t begin, end;
  };
  std::vector<Group> groups_to_draw() const;

  at::ScalarType dtype_, matrices_;
  Initialisation initialisation_;
  BaseFormat base_ = BaseFormat::as_stored;
  bool trained_ = true;
  std::size_t trained_count_ = 0;
  NamedParameters parameters_;
  std::vector<Pending> pending_;
};

}  // namespace accrue::models
