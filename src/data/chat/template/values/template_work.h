#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

namespace accrue::data::jinja {

/// An operation of a template that is not possible. The caller that knows file and line makes a
/// usage Error of it.
struct Failure : std::runtime_error {
  Failure(std::string wanted, std::string found)
      : std::runtime_error(wanted + ", received " + found),
        expected(std::move(wanted)),
        received(std::move(found)) {}
  std::string expected, received;
};

/// Bounds the cost of one rendering: a template is a foreign file. A byte or an element that is
/// created or read costs one unit, a node that is evaluated `per_node`.
class Work {
 public:
  static constexpr std::size_t most = std::size_t{1} << 28;
  static constexpr std::size_t per_node = 16;
  /// Lists in lists, and so on; Python's own limit is similar.
  static constexpr int deepest_value = 200;

  /// Throws a Failure if the whole is too much.
  void spend(std::size_t units) {
    if (units > left_)
      throw Failure("a template that renders within " + std::to_string(most) + " units of work",
                    "one that needs more (a loop or a text that grows without end)");
    left_ -= units;
  }

 private:
  std::size_t left_ = most;
};

}  // namespace accrue::data::jinja
