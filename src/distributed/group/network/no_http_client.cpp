#include "accrue/core/error.h"
#include "distributed/group/network/http_client.h"

namespace accrue::distributed {

void HttpClient::End::operator()(void*) const noexcept {}

HttpClient::HttpClient() {
  throw usage_error("connect to the other ranks",
                    "a build with libcurl's headers, for ACCRUE_STORE", "one without",
                    "building where libcurl4-openssl-dev is installed, or no ACCRUE_STORE");
}

HttpClient::Answer HttpClient::post(const std::string&, const std::string&,
                                    std::chrono::milliseconds, const std::stop_token&) {
  return {};
}

std::string HttpClient::own_address() const { return {}; }

}  // namespace accrue::distributed
