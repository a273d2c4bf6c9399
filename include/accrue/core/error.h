#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace accrue {

/// A failure in the four parts that a user needs. Every error that accrue throws is of this type.
///
/// `what()` reads `<operation>: expected <expected>, received <received>; try <suggestion>`.
/// The command line prints it after `error: ` and exits with `exit_code()`.
class Error : public std::runtime_error {
 public:
  enum class Kind {
    usage,    ///< the command line, the config or the input is wrong: exit 2, nothing was changed
    runtime,  ///< a failure while running: exit 1
    refused,  ///< a difference was found or a budget cannot be met: exit 3
  };

  Error(Kind kind, std::string operation, std::string expected, std::string received,
        std::string suggestion);

  /// The exit status of a program that an error of this kind ends.
  static int exit_code(Kind kind) noexcept;

  Kind kind() const noexcept { return kind_; }
  int exit_code() const noexcept { return exit_code(kind_); }
  const std::string& operation() const noexcept { return operation_; }
  const std::string& expected() const noexcept { return expected_; }
  const std::string& received() const noexcept { return received_; }
  const std::string& suggestion() const noexcept { return suggestion_; }

 private:
  Kind kind_;
  std::string operation_, expected_, received_, suggestion_;
};

/// Shorthands for the point of failure: `throw usage_error("open data", ...)`.
Error usage_error(std::string_view operation, std::string_view expected, std::string_view received,
                  std::string_view suggestion);
Error runtime_error(std::string_view operation, std::string_view expected,
                    std::string_view received, std::string_view suggestion);

}  // namespace accrue
