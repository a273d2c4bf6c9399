#pragma once

#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "accrue/core/error.h"
#include "exit_status.h"

namespace accrue::testing {

using Request = std::function<void(const std::vector<std::string>&)>;

/// Runs `request` on the arguments of the program, and ends as the command line does. Without
/// arguments it reads them from stdin, a JSON array in each line, and answers each with a line of
/// {"status", "error"}: the exit status of such a program, and the message. libtorch takes longer
/// to start than most requests to run, so request_program.py sends all requests of a script to one
/// process.
inline int run_requests(int argc, char** argv, const Request& request) {
  if (argc > 1)
    return exit_status_of([&] {
      request({argv + 1, argv + argc});
      return 0;
    });
  for (std::string line; std::getline(std::cin, line);) {
    nlohmann::json answer = {{"status", 0}, {"error", ""}};
    try {
      request(nlohmann::json::parse(line).get<std::vector<std::string>>());
    } catch (const Error& error) {
      answer = {{"status", error.exit_code()}, {"error", error.what()}};
    }
    std::cout << answer.dump() << std::endl;
  }
  return 0;
}

}  // namespace accrue::testing
