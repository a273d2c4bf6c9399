#include "distributed/group/run_token.h"

#include <stdexcept>

#include "accrue/core/error.h"
#include "distributed/group/addresses.h"

namespace accrue::distributed {
namespace {

constexpr std::size_t kShortest = 16;

/// An unknown name is the actual mistake, not the missing token.
void expect_an_address(const std::string& master_addr) {
  try {
    addresses_of(master_addr, 0);
  } catch (const std::runtime_error& error) {
    throw usage_error("connect to the other ranks",
                      "MASTER_ADDR to be the name or an address of the machine that runs rank 0",
                      error.what(), "the address by which all ranks reach that machine");
  }
}

}  // namespace

void check_run_token(std::string_view token) {
  if (token.size() >= kShortest) return;
  throw usage_error("read ACCRUE_RUN_TOKEN",
                    "a secret of at least " + std::to_string(kShortest) + " characters",
                    std::to_string(token.size()) + " characters", kMakeRunToken);
}

void require_run_token(const Launch& launch) {
  if (!launch.run_token.empty() || is_loopback(launch.master_addr)) return;
  expect_an_address(launch.master_addr);
  throw usage_error(
      "connect to the other ranks",
      "ACCRUE_RUN_TOKEN where other machines can reach the ranks' store",
      "MASTER_ADDR '" + launch.master_addr + "', which is not the loopback interface, and no token",
      kMakeRunToken);
}

}  // namespace accrue::distributed
